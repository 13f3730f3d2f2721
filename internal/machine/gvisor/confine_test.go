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
)

// TestConfinement looks at a running machine's processes from outside: the sentry and those that it has forked.
func TestConfinement(t *testing.T) {
	root := debian(t)
	s := start(t, driverIn(t, sharedDirs(t)), specOf(t, root))
	s.shell(t, "true")
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
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
			if status[set] != "0000000000000000" {
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
		if found := filesIn(t, proc+"/root"); !slices.Equal(found, []string{"proc/self/maps"}) {
			t.Errorf("%d: its root holds %v", pid, found)
		}
		if err := os.WriteFile(proc+"/root/new", nil, 0o600); err == nil {
			t.Errorf("%d: its root can be written to", pid)
		}
		for _, file := range glob(t, proc+"/fd/*") {
			if link, err := os.Readlink(file); err == nil && !mayHave(link) {
				t.Errorf("%d: it has %s open", pid, link)
			}
		}
	}
}

// mayHave tells whether a sentry has a use for an open file: its images, its layer, and what has no name.
func mayHave(link string) bool {
	switch {
	case link == "/dev/null", strings.HasSuffix(link, " (deleted)"), strings.HasPrefix(link, "/memfd:"):
		return true
	case strings.HasPrefix(link, "socket:"), strings.HasPrefix(link, "pipe:"), strings.HasPrefix(link, "anon_inode:"):
		return true
	}
	return strings.Contains(link, "/templates/") && strings.HasSuffix(link, "/"+imageFile)
}

// filesIn gives the paths of all files in a tree.
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
