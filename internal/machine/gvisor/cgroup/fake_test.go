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

// fake is a kernel whose cgroups are folders and files of a test.
type fake struct {
	refused map[string]error // by folder: what may not be written to
	failing map[string]error // by the name of a file and what is written, or "rmdir"
	absent  []string         // files that this kernel does not have
	wrote   []string         // names of files and values, in their order
}

func (k *fake) access(path string, mode uint32) error {
	if err := k.refused[path]; err != nil && mode&unix.W_OK != 0 {
		return err
	}
	return linux{}.access(path, mode)
}

// mkdir makes the files that the group above has the controllers for. In version 1 those are the files that it has itself.
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

// rmdir is refused while a process of the group lives.
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

// tree is a fake host. Paths are below its folder, which "@" stands for.
type tree struct {
	t      *testing.T
	folder string
	host   host
	kernel *fake
}

// newTree makes the folders and files that files names, with their content, beside what the kernel says of the present process.
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

// group names the files of a group of version 2, other than the root of the tree.
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
