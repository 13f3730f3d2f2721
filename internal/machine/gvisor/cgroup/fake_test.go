package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// fake is a kernel for tests. It uses ordinary folders and files as cgroups.
type fake struct {
	refused map[string]error // errors from access, by folder.
	failing map[string]error // errors, by file name and value, or by "rmdir".
	absent  []string         // names of files that this kernel lacks.
	wrote   []string         // file names and values, in order.
}

func (k *fake) access(path string, mode uint32) error {
	if err := k.refused[path]; err != nil && mode&unix.W_OK != 0 {
		return err
	}
	return linux{}.access(path, mode)
}

// mkdir creates the files of the controllers that the parent enables. In version 1 the new group
// has the same files as its parent.
func (k *fake) mkdir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	control, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cgroup.subtree_control"))
	if err != nil {
		entries, err := os.ReadDir(filepath.Dir(path))
		for _, e := range entries {
			if !e.IsDir() {
				err = errors.Join(err, os.WriteFile(filepath.Join(path, e.Name()), nil, 0o600))
			}
		}
		return err
	}
	files := []string{"cgroup.procs", "cgroup.events", "cgroup.kill", "cgroup.controllers", "cgroup.subtree_control"}
	for _, c := range strings.Fields(string(control)) {
		files = append(files, map[string][]string{
			"memory": {"memory.max", "memory.swap.max", "memory.oom.group", "memory.events"},
			"cpu":    {"cpu.max"},
			"pids":   {"pids.max"},
		}[c]...)
	}
	err = nil
	for _, name := range files {
		if !slices.Contains(k.absent, name) {
			err = errors.Join(err, os.WriteFile(filepath.Join(path, name), nil, 0o600))
		}
	}
	return err
}

// rmdir fails while the group contains a living process.
func (k *fake) rmdir(path string) error {
	if err := k.failing["rmdir"]; err != nil {
		return &os.PathError{Op: "rmdir", Path: path, Err: err}
	}
	text, err := read(filepath.Join(path, "cgroup.procs"))
	if err != nil {
		return err
	}
	for _, line := range strings.Fields(text) {
		if line == "busy" {
			return &os.PathError{Op: "rmdir", Path: path, Err: unix.EBUSY}
		}
	}
	all, _ := processes(text)
	for _, pid := range all {
		if syscall.Kill(pid, 0) == nil {
			return &os.PathError{Op: "rmdir", Path: path, Err: unix.EBUSY}
		}
	}
	return os.RemoveAll(path)
}

func (k *fake) write(path, value string) error {
	name := filepath.Base(path)
	if err := k.failing[name+" "+value]; err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	old, err := read(path)
	if err != nil {
		return err
	}
	k.wrote = append(k.wrote, name+" "+value)
	switch name {
	case "cgroup.subtree_control":
		value = old + " " + strings.TrimPrefix(value, "+")
	case "cgroup.kill":
		return os.WriteFile(filepath.Join(filepath.Dir(path), "cgroup.procs"), nil, 0o600)
	}
	return os.WriteFile(path, []byte(value), 0o600)
}

// tree is a fake host. In its files "@" is replaced by the path of its folder.
type tree struct {
	t      *testing.T
	folder string
	host   host
	kernel *fake
}

// newTree creates the given folders and files, and the files in /proc of the current process.
func newTree(t *testing.T, cgroup, mountinfo string, files map[string]string) *tree {
	r := &tree{t: t, folder: t.TempDir(), kernel: &fake{}}
	r.host = host{proc: r.path("/proc"), kernel: r.kernel, root: true, processors: 4}
	for name, content := range files {
		r.put(name, content)
	}
	r.put("/proc/cgroup", cgroup)
	r.put("/proc/mountinfo", strings.ReplaceAll(mountinfo, "@", r.folder))
	return r
}

func (r *tree) path(name string) string { return filepath.Join(r.folder, name) }

func (r *tree) put(name, content string) {
	r.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(r.path(name)), 0o755), os.WriteFile(r.path(name), []byte(content), 0o600)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *tree) get(name string) string {
	r.t.Helper()
	b, err := os.ReadFile(r.path(name))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(b)
}

// group returns the files of a version 2 group other than the root.
func group(path, control string, more ...map[string]string) map[string]string {
	all := map[string]string{
		path + "/cgroup.procs": "", path + "/cgroup.events": "populated 1\n",
		path + "/cgroup.controllers": control, path + "/cgroup.subtree_control": control,
	}
	for _, m := range more {
		for name, content := range m {
			all[name] = content
		}
	}
	return all
}
