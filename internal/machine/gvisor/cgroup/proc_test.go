package cgroup

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseMemberships(t *testing.T) {
	got, err := parseMemberships("9:name=systemd:/\n2:cpu,cpuacct:/a:b c\n0::/../x\n")
	want := []membership{
		{controllers: []string{"name=systemd"}, path: "/"},
		{controllers: []string{"cpu", "cpuacct"}, path: "/a:b c"},
		{v2: true, path: "/../x"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(membership{})); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if !got[1].has("cpu") || got[1].has("cpua") {
		t.Error("a controller is a whole word")
	}
	for _, bad := range []string{"\n", "0:/", "x:memory:/", "-1:memory:/", "1::/", "0:memory:/", "1:memory:", "1:memory:a"} {
		if got, err := parseMemberships(bad); err == nil {
			t.Errorf("%q: got %v", bad, got)
		}
	}
}

func TestParseMounts(t *testing.T) {
	got, err := parseMounts("31 23 0:28 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs rw,mode=755\n" +
		"32 31 0:29 /docker/x /a\\040b\\134 rw,nosuid shared:9 master:1 - cgroup  rw,cpu,cpuacct\n" +
		"33 31 0:30 net:[1] /c rw - cgroup2 - ro\n")
	want := []mount{
		{root: "/", point: "/sys/fs/cgroup", readOnly: true, kind: "tmpfs", super: []string{"rw", "mode=755"}},
		{root: "/docker/x", point: `/a b\`, kind: "cgroup", super: []string{"rw", "cpu", "cpuacct"}},
		{root: "net:[1]", point: "/c", readOnly: true, kind: "cgroup2", super: []string{"ro"}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(mount{})); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, bad := range []string{
		"\n", "1 2 3:4 / / rw", "1 2 3:4 / / rw - cgroup none", "1 2 3:4 / / rw x:1 cgroup none rw", "1 2 3:4 / / rw - cgroup none rw more",
		`1 2 3:4 / /\04 rw - cgroup none rw`, `1 2 3:4 / /\400 rw - cgroup none rw`, `1 2 3:4 / /\+40 rw - cgroup none rw`, "1 2 3:4 / a rw - cgroup none rw",
	} {
		if got, err := parseMounts(bad); err == nil {
			t.Errorf("%q: got %v", bad, got)
		}
	}
}

func TestFolder(t *testing.T) {
	for _, c := range []struct{ root, group, want string }{
		{"/", "/", "/m"},
		{"/", "/a/b", "/m/a/b"},
		{"/a", "/a", "/m"},
		{"/a", "/a/b", "/m/b"},
		{"/a", "/ab", ""},
		{"/a/b", "/a", ""},
		{"/..", "/", ""},
		{"/", "/../a", ""},
		{"net:[1]", "/", ""},
	} {
		got, ok := mount{root: c.root, point: "/m"}.folder(c.group)
		if ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%q in %q: got %q, %v", c.group, c.root, got, ok)
		}
	}
}

func TestCountAndProcesses(t *testing.T) {
	if n := count("oom 9\noom_kill 3\noom_group_kill 1\n", "oom_kill"); n != 3 {
		t.Errorf("got %d", n)
	}
	for _, none := range []string{"", "oom_kill", "oom_kill x\n", "oom_kill -1\n", "xoom_kill 3\n"} {
		if n := count(none, "oom_kill"); n != 0 {
			t.Errorf("%q: got %d", none, n)
		}
	}
	if got, err := processes("7\n0\n12\n"); err != nil || !slices.Equal(got, []int{7, 12}) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"-1\n", "\n", "1 2\n", "99999999999\n"} {
		if got, err := processes(bad); err == nil {
			t.Errorf("%q: got %v", bad, got)
		}
	}
}

// FuzzMemberships writes parsed memberships and parses them again.
func FuzzMemberships(f *testing.F) {
	f.Add("9:name=systemd:/\n2:cpu,cpuacct:/a:b\n0::/x\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseMemberships(text)
		if err != nil {
			return
		}
		var b strings.Builder
		for _, m := range got {
			number := 1
			if m.v2 {
				number = 0
			}
			fmt.Fprintf(&b, "%d:%s:%s\n", number, strings.Join(m.controllers, ","), m.path)
		}
		again, err := parseMemberships(b.String())
		if diff := cmp.Diff(got, again, cmp.AllowUnexported(membership{})); err != nil || diff != "" {
			t.Error(err, diff)
		}
	})
}

// FuzzMounts writes parsed mounts and parses them again. It also checks that no group's folder is
// outside its mount.
func FuzzMounts(f *testing.F) {
	f.Add("32 31 0:29 /docker/x /a\\040b rw,nosuid shared:9 - cgroup none rw,cpu,cpuacct\n33 31 0:30 / /c ro - cgroup2 c rw\n", "/docker/x/y")
	f.Add("32 31 0:29 / / rw - cgroup2 none rw\n", "/../x")
	escape := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`)
	f.Fuzz(func(t *testing.T, text, group string) {
		got, err := parseMounts(text)
		if err != nil {
			return
		}
		var b strings.Builder
		for _, m := range got {
			options := "rw"
			if m.readOnly {
				options = "ro"
			}
			fmt.Fprintf(&b, "1 2 3:4 %s %s %s - %s none %s\n", escape.Replace(m.root), escape.Replace(m.point), options, m.kind, strings.Join(m.super, ","))
			point := path.Clean(m.point)
			if folder, ok := m.folder(group); ok && folder != point && !strings.HasPrefix(folder, strings.TrimSuffix(point, "/")+"/") {
				t.Errorf("%q of %+v is %q", group, m, folder)
			}
		}
		again, err := parseMounts(b.String())
		if diff := cmp.Diff(got, again, cmp.AllowUnexported(mount{})); err != nil || diff != "" {
			t.Error(err, diff)
		}
	})
}

// FuzzFiles checks that the parsers of a group's own files do not panic, and that all PIDs are
// positive.
func FuzzFiles(f *testing.F) {
	f.Add("7\n0\n12\n")
	f.Add("oom_kill 3\n")
	f.Fuzz(func(t *testing.T, text string) {
		count(text, "oom_kill")
		all, err := processes(text)
		if err != nil {
			return
		}
		for _, pid := range all {
			if pid <= 0 {
				t.Errorf("got %d", pid)
			}
		}
	})
}
