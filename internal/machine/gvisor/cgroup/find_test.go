package cgroup

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// These constants describe the hosts of the tests: the content of /proc/self/mountinfo and of
// /proc/self/cgroup.
const (
	unified = "30 1 0:2 / @/cg rw,nosuid shared:1 - cgroup2 cgroup2 rw,nsdelegate\n"
	trees   = "31 1 0:3 / @/cg/memory rw - cgroup cgroup rw,memory\n" +
		"32 1 0:4 / @/cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
		"33 1 0:5 / @/cg/pids rw - cgroup cgroup rw,pids\n"
	inTrees = "5:pids:/\n4:memory:/a\n3:cpu,cpuacct:/b\n1:name=systemd:/init.scope\n"
)

// root returns the files of the root of the version 2 tree.
func root(path, has, control string) map[string]string {
	return map[string]string{path + "/cgroup.procs": "1\n", path + "/cgroup.controllers": has, path + "/cgroup.subtree_control": control}
}

func v1Files() map[string]string {
	all := map[string]string{}
	for folder, names := range map[string][]string{
		"/cg/memory/a":      {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.oom_control"},
		"/cg/cpu,cpuacct/b": {"cpu.cfs_period_us", "cpu.cfs_quota_us"},
		"/cg/pids":          {"pids.max"},
	} {
		for _, name := range append(names, "cgroup.procs") {
			all[folder+"/"+name] = ""
		}
	}
	return all
}

func TestFind(t *testing.T) {
	const session, app = "/user.slice/user-1.slice/session-3.scope", "/user.slice/user-1.slice/user@1.service/app.slice"
	for name, c := range map[string]struct {
		cgroup, mounts string
		files          map[string]string
		user           bool
		refused        map[string]error
		want           string // paths of the parent, by controller
		fails, hint    string // parts of the expected error and hint
	}{
		"v2, a delegated scope": {
			cgroup: "0::" + app + "/run-1.scope\n", mounts: unified, user: true,
			files: group("/cg"+app, "cpu memory pids", group("/cg"+app+"/run-1.scope", "")),
			want:  "memory=/cg" + app + " cpu=/cg" + app + " pids=/cg" + app,
		},
		"v2, without cpu": {
			cgroup: "0::/a/b\n", mounts: unified, files: group("/cg/a", "memory pids\n", group("/cg/a/b", "")), want: "memory=/cg/a pids=/cg/a",
		},
		"v2, memory not delegated": {
			cgroup: "0::/a/b\n", mounts: unified, user: true, files: group("/cg/a", "cpu pids", group("/cg/a/b", "")),
			fails: "/cg/a does not enable the memory controller", hint: "systemd-run --user --scope -p Delegate=yes",
		},
		"v2, a login session": {
			cgroup: "0::" + session + "\n", mounts: unified, user: true, files: group("/cg/user.slice/user-1.slice", "memory pids", group("/cg"+session, "")),
			refused: map[string]error{"/cg/user.slice/user-1.slice": unix.EACCES},
			fails:   "not allowed to make cgroups: write to @/cg/user.slice/user-1.slice: permission denied", hint: "systemd-run --user --scope -p Delegate=yes",
		},
		"v2, processes may not be moved": {
			cgroup: "0::/a/b\n", mounts: unified, user: true, files: group("/cg/a", "memory pids", group("/cg/a/b", "")),
			refused: map[string]error{"/cg/a/cgroup.procs": unix.EACCES}, fails: "permission denied", hint: "systemd-run",
		},
		"v2, root in a user namespace": {
			cgroup: "0::/a/b\n", mounts: unified, files: group("/cg/a", "memory pids", group("/cg/a/b", "")),
			refused: map[string]error{"/cg/a": unix.EACCES}, fails: "permission denied", hint: "give the container writable cgroups",
		},
		"v2, at the root": {
			cgroup: "0::/\n", mounts: unified, files: root("/cg", "cpuset cpu memory pids\n", "pids\n"), want: "memory=/cg cpu=/cg pids=/cg",
		},
		"v2, below the root": {
			cgroup: "0::/a\n", mounts: unified, files: group("/cg/a", "", root("/cg", "memory\n", "")), want: "memory=/cg",
		},
		"v2, at the root as a user": {
			cgroup: "0::/\n", mounts: unified, user: true, files: root("/cg", "memory", "memory"),
			refused: map[string]error{"/cg": unix.EACCES}, fails: "permission denied", hint: "systemd-run --user",
		},
		"v2, a kernel without memory": {
			cgroup: "0::/\n", mounts: unified, files: root("/cg", "cpu pids", ""), fails: "no memory controller", hint: "cgroup_enable=memory",
		},
		"v2, the root of a namespace": {
			cgroup: "0::/\n", mounts: unified, files: group("/cg", "memory pids"), fails: "topmost visible cgroup", hint: "systemd-run --scope -p Delegate=yes",
		},
		"v2, below the root of a namespace": {
			cgroup: "0::/init\n", mounts: unified, files: group("/cg", "memory pids", group("/cg/init", "")), want: "memory=/cg pids=/cg",
		},
		"v2, a mount that is read-only": {
			cgroup: "0::/a/b\n", mounts: strings.Replace(unified, "rw,nosuid", "ro,nosuid", 1), files: group("/cg/a", "memory", group("/cg/a/b", "")),
			fails: "cgroups mounted on @/cg are read-only", hint: "give the container writable cgroups",
		},
		"v2, a file system that is read-only": {
			cgroup: "0::/a/b\n", mounts: unified, files: group("/cg/a", "memory", group("/cg/a/b", "")),
			refused: map[string]error{"/cg/a": unix.EROFS}, fails: "read-only", hint: "give the container writable cgroups",
		},
		"v2, a part is mounted": {
			cgroup: "0::/docker/x/y\n", mounts: "30 1 0:2 /docker/x @/my\\040cg rw - cgroup2 cgroup2 rw\n",
			files: group("/my cg", "memory cpu", group("/my cg/y", "")), want: "memory=/my cg cpu=/my cg",
		},
		"v2, only the own one is mounted": {
			cgroup: "0::/docker/x\n", mounts: "30 1 0:2 /docker/x @/cg rw - cgroup2 cgroup2 rw\n", files: group("/cg", "memory cpu"), fails: "topmost visible cgroup",
		},
		"v2, mounted from above the namespace": {
			cgroup: "0::/\n", mounts: "30 1 0:2 /../.. @/cg rw - cgroup2 cgroup2 rw\n", files: group("/cg", "memory"), fails: "do not contain pyro's own cgroup",
		},
		"v2, something is mounted over it": {
			cgroup: "0::/a/b\n", mounts: unified, fails: "do not contain pyro's own cgroup",
		},
		"v2, the second mount can be used": {
			cgroup: "0::/a/b\n", mounts: "29 1 0:2 / @/ro ro - cgroup2 cgroup2 rw\n" + unified,
			files: group("/cg/a", "memory", group("/cg/a/b", "", group("/ro/a/b", ""))), want: "memory=/cg/a",
		},
		"v2, not mounted": {
			cgroup: "0::/a\n", mounts: "30 1 0:2 / @/cg rw - tmpfs tmpfs rw\n", fails: "no cgroups are mounted here", hint: "mount -t cgroup2",
		},
		"v1": {
			cgroup: inTrees, mounts: trees, files: v1Files(), want: "memory=/cg/memory/a cpu=/cg/cpu,cpuacct/b pids=/cg/pids",
		},
		"hybrid": {
			cgroup: inTrees + "0::/\n", mounts: "29 1 0:2 / @/cg/unified rw - cgroup2 cgroup2 rw\n" + trees,
			files: addAll(v1Files(), root("/cg/unified", "hugetlb", "")), want: "memory=/cg/memory/a cpu=/cg/cpu,cpuacct/b pids=/cg/pids",
		},
		"hybrid, nothing of version 1 is mounted": {
			cgroup: inTrees + "0::/\n", mounts: unified, files: root("/cg", "hugetlb", ""),
			fails: "the memory controller's cgroups are not mounted here", hint: "mount -t cgroup -o memory",
		},
		"v1, a container": {
			cgroup: "4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n", mounts: "31 1 0:3 /docker/x @/cg/memory/a rw - cgroup cgroup rw,memory\n",
			files: v1Files(), want: "memory=/cg/memory/a",
		},
		"v1, read-only": {
			cgroup: inTrees, mounts: strings.Replace(trees, "memory rw", "memory ro", 1), files: v1Files(), fails: "read-only", hint: "give the container",
		},
		"v1, pids read-only": {
			cgroup: inTrees, mounts: strings.Replace(trees, "rw,pids", "ro,pids", 1), files: v1Files(), want: "memory=/cg/memory/a cpu=/cg/cpu,cpuacct/b",
		},
		"v1, a user": {
			cgroup: inTrees, mounts: trees, files: v1Files(), user: true, refused: map[string]error{"/cg/memory/a": unix.EACCES},
			fails: "write to @/cg/memory/a: permission denied", hint: "run pyro as root",
		},
		"v1, another is mounted": {
			cgroup: inTrees, mounts: "31 1 0:3 /z @/cg/memory rw - cgroup cgroup rw,memory\n", files: v1Files(),
			fails: "do not contain pyro's own cgroup, /a",
		},
		"v1, all in one": {
			cgroup: "2:pids,memory,cpu:/a\n", mounts: "31 1 0:3 / @/cg/memory rw - cgroup cgroup rw,cpu,memory,pids\n", files: v1Files(),
			want: "memory=/cg/memory/a cpu=/cg/memory/a pids=/cg/memory/a",
		},
		"no cgroups":       {cgroup: "", mounts: unified, fails: "no memory controller"},
		"no cgroup file":   {cgroup: "gone", mounts: unified, fails: "invalid line of a cgroup file"},
		"no mounts at all": {cgroup: "0::/\n", fails: "no cgroups are mounted here"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTree(t, c.cgroup, c.mounts, c.files)
			r.host.root = !c.user
			r.kernel.refused = map[string]error{}
			for folder, err := range c.refused {
				r.kernel.refused[r.path(folder)] = err
			}
			p, err := r.host.find()
			if c.fails != "" {
				fails := strings.ReplaceAll(c.fails, "@", r.folder)
				if fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), fails) || !strings.Contains(fault.HintOf(err), c.hint) {
					t.Fatalf("got %v, hint %q, want %q, hint %q", err, fault.HintOf(err), fails, c.hint)
				}
				if strings.Count(err.Error(), "limit machines with cgroups: ") != 1 {
					t.Errorf("the error repeats the operation: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got, missing []string
			for _, controller := range controllers {
				if f := p.folders[controller]; f != "" {
					got = append(got, controller+"="+strings.TrimPrefix(f, r.folder))
				} else {
					missing = append(missing, controller)
				}
			}
			if strings.Join(got, " ") != c.want || !slices.Equal(p.Missing(), missing) {
				t.Errorf("got %v, missing %v, want %v", got, p.Missing(), c.want)
			}
		})
	}
}

func addAll(to, from map[string]string) map[string]string {
	maps.Copy(to, from)
	return to
}

func TestFindWithoutProc(t *testing.T) {
	_, err := host{proc: t.TempDir(), kernel: &fake{}}.find()
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "shows no cgroups") {
		t.Error(err)
	}
}

// TestFindEnablesControllersOfRoot checks that find makes the root enable all controllers that it
// has. A group below the root must not change.
func TestFindEnablesControllersOfRoot(t *testing.T) {
	r := newTree(t, "0::/\n", unified, root("/cg", "cpu memory pids", "pids"))
	r.kernel.failing = map[string]error{"cgroup.subtree_control +cpu": unix.EINVAL}
	p, err := r.host.find()
	if err != nil || !slices.Equal(p.Missing(), []string{"cpu"}) || !slices.Equal(r.kernel.wrote, []string{"cgroup.subtree_control +memory"}) {
		t.Errorf("got %v, wrote %q", err, r.kernel.wrote)
	}
	r = newTree(t, "0::/\n", unified, root("/cg", "cpu memory pids", "pids"))
	r.kernel.failing = map[string]error{"cgroup.subtree_control +memory": unix.EBUSY}
	if _, err := r.host.find(); fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "busy") {
		t.Error(err)
	}
	r = newTree(t, "0::/a/b\n", unified, group("/cg/a", "memory", group("/cg/a/b", "")))
	r.put("/cg/a/cgroup.controllers", "cpu memory pids")
	if _, err := r.host.find(); err != nil || len(r.kernel.wrote) > 0 {
		t.Errorf("got %v, wrote %q", err, r.kernel.wrote)
	}
}
