//go:build machine

package gvisor

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/machinetest"
)

// TestConfinement inspects a running machine's processes from the host: the sentry and its child
// processes.
func TestConfinement(t *testing.T) {
	root := machinetest.Debian(t)
	spec := specOf(t, root)
	network := machinetest.LinkOf(1)
	near, far, err := machine.NewLink()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	defer far.Close()
	network.Link, spec.Network = far, &network // the network link must not give the sentry further rights
	s := start(t, driverIn(t, machinetest.SharedDirs(t)), spec)
	s.shell(t, "grep -q eth0 /proc/net/dev")
	pids := []int{s.PID()}
	for _, file := range glob(t, "/proc/[0-9]*/status") {
		var pid int
		fmt.Sscanf(file, "/proc/%d/", &pid)
		if status := statusOf(file); status["PPid"] == fmt.Sprint(s.PID()) {
			pids = append(pids, pid)
		}
	}
	if len(pids) < 2 {
		t.Error("the sentry has forked nothing")
	}
	for _, pid := range pids {
		checkConfinement(t, pid, 0)
		proc := fmt.Sprintf("/proc/%d", pid)
		if found := filesIn(t, proc+"/root"); !slices.Equal(found, []string{"proc/self/maps"}) {
			t.Errorf("%d: its root holds %v", pid, found)
		}
		mounts, err := os.ReadFile(proc + "/mountinfo")
		if lines := strings.Count(string(mounts), "\n"); err != nil || lines != 2 || !strings.Contains(string(mounts), " - tmpfs ") || !strings.Contains(string(mounts), " /proc/self/maps ") {
			t.Errorf("%d: its mount namespace holds %v\n%s", pid, err, mounts)
		}
		if err := os.WriteFile(proc+"/root/new", nil, 0o600); err == nil {
			t.Errorf("%d: its root can be written to", pid)
		}
		for _, file := range glob(t, proc+"/fd/*") {
			if link, err := os.Readlink(file); err == nil && !isAllowedFile(link) {
				t.Errorf("%d: it has %s open", pid, link)
			}
		}
	}
}

// TestGoferConfinement checks that the process that serves a volume can access the volume and
// no other files of the host.
func TestGoferConfinement(t *testing.T) {
	folder := t.TempDir()
	s := startStored(t, driverIn(t, machinetest.SharedDirs(t)), specOf(t, machinetest.Debian(t)), machine.TreeStorage{Folder: folder})
	s.shell(t, "cd "+workspace+" && echo text >file && mkdir sub && cat file && tail -f file >/dev/null 2>&1 &")
	pid := s.sandbox().gofer.PID()
	checkConfinement(t, pid, 1<<unix.CAP_CHOWN|1<<unix.CAP_DAC_OVERRIDE|1<<unix.CAP_FOWNER|1<<unix.CAP_FSETID)
	proc := fmt.Sprintf("/proc/%d", pid)
	root, err1 := os.Stat(proc + "/root/.")
	host, err2 := os.Stat(folder)
	if err1 != nil || err2 != nil || !os.SameFile(root, host) {
		t.Errorf("its root is not the volume: %v, %v", err1, err2)
	}
	mounts, err := os.ReadFile(proc + "/mountinfo")
	if fields := strings.Fields(string(mounts)); err != nil || strings.Count(string(mounts), "\n") != 1 || !strings.Contains(fields[5], "nosuid,nodev") {
		t.Errorf("its mounts are %s, %v", mounts, err)
	}
	for _, file := range glob(t, proc+"/fd/*") {
		link, err := os.Readlink(file)
		if err != nil || !strings.HasPrefix(link, "/") || isAllowedFile(link) {
			continue
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		var kind unix.Statfs_t
		if err := unix.Statfs(file, &kind); err != nil {
			t.Fatal(err)
		}
		if kind.Type == unix.PROC_SUPER_MAGIC { // folder of the gofer's own open files
			above, err := os.Stat(file + "/..")
			if err != nil || !os.SameFile(info, above) {
				t.Errorf("a way leads out of %s: %v", link, err)
			}
			continue
		}
		if in, err := os.Stat(filepath.Join(folder, link)); err != nil || !os.SameFile(in, info) {
			t.Errorf("it has %s open", link)
		}
	}
	// The sentry can have files of the volume open, but no folder.
	for _, file := range glob(t, fmt.Sprintf("/proc/%d/fd/*", s.PID())) {
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			t.Errorf("the sentry has the folder %s open", file)
		}
	}
	own, err1 := os.ReadFile(proc + "/cgroup")
	sentry, err2 := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", s.PID()))
	if err1 != nil || err2 != nil || string(own) != string(sentry) {
		t.Errorf("its cgroups are %s, the sentry's %s; %v %v", own, sentry, err1, err2)
	}
}

// checkConfinement checks a process of a machine. The parameter capabilities is the set that the
// process must have in its own user namespace.
func checkConfinement(t *testing.T, pid int, capabilities uint64) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d", pid)
	status := statusOf(proc + "/status")
	for _, id := range []string{"Uid", "Gid"} {
		for _, n := range strings.Fields(status[id]) {
			if n == "0" && os.Getuid() == 0 {
				t.Errorf("%d: %s: %s: it is root on the host", pid, id, status[id])
			}
		}
	}
	if os.Getuid() == 0 && status["Groups"] != "" {
		t.Errorf("%d: it is in the groups %s", pid, status["Groups"])
	}
	for set, want := range map[string]uint64{"CapInh": 0, "CapPrm": capabilities, "CapEff": capabilities, "CapAmb": 0} {
		if status[set] != fmt.Sprintf("%016x", want) {
			t.Errorf("%d: %s %s", pid, set, status[set])
		}
	}
	if status["Seccomp"] != "2" || status["NoNewPrivs"] != "1" {
		t.Errorf("%d: Seccomp %s, NoNewPrivs %s: it has no system call filter", pid, status["Seccomp"], status["NoNewPrivs"])
	}
	for _, namespace := range []string{"user", "mnt", "pid", "net", "ipc", "uts"} {
		own, err1 := os.Readlink("/proc/self/ns/" + namespace)
		its, err2 := os.Readlink(proc + "/ns/" + namespace)
		if err1 != nil || err2 != nil || own == its {
			t.Errorf("%d: %s: ours %q, its %q; %v %v", pid, namespace, own, its, err1, err2)
		}
	}
	if limits, err := os.ReadFile(proc + "/limits"); err != nil || !strings.Contains(string(limits), "Max core file size        0                    0") {
		t.Errorf("%d: %v: %s", pid, err, limits)
	}
}

// isAllowedFile reports whether a sentry is allowed to have a file open: its images, its layer,
// unnamed files, sockets and pipes.
func isAllowedFile(link string) bool {
	switch {
	case link == "/dev/null", strings.HasSuffix(link, " (deleted)"), strings.HasPrefix(link, "/memfd:"):
		return true
	case strings.HasPrefix(link, "socket:"), strings.HasPrefix(link, "pipe:"), strings.HasPrefix(link, "anon_inode:"):
		return true
	}
	return strings.Contains(link, "/templates/") && strings.HasSuffix(link, "/"+imageFile)
}

// filesIn lists the paths of all files in a tree.
func filesIn(t *testing.T, root string) (paths []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return paths
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal(pattern, err)
	}
	return files
}

func statusOf(file string) map[string]string {
	status := map[string]string{}
	b, _ := os.ReadFile(file)
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		status[name] = strings.TrimSpace(value)
	}
	return status
}
