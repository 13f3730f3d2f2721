package machinetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
)

// savedRefused checks that no machine resumes from a damaged folder or with a different shape.
func (s suite) savedRefused(t *testing.T) {
	s.savable(t)
	g := s.renewed(t, other)
	dir := g.save(t)
	g.Close()
	refused := func(kind fault.Kind, spec machine.Spec) error {
		t.Helper()
		m, err := s.driver.Start(context.Background(), spec)
		if err == nil {
			m.Close()
		}
		if fault.KindOf(err) != kind {
			t.Errorf("%v, which is not %s", err, kind)
		}
		leavesNothing(t, 0, spec.Dir)
		return err
	}
	for name, change := range map[string]func(*machine.Spec){
		"processors":  func(spec *machine.Spec) { spec.VCPUs++ },
		"memory":      func(spec *machine.Spec) { spec.MemMiB *= 2 },
		"environment": func(spec *machine.Spec) { spec.Root.Digest = "sha256:" + client.NewIdentity("").MachineID },
	} {
		spec := s.again(t, g, dir)
		change(&spec)
		if err := refused(fault.Precondition, spec); err != nil && !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	spec := s.again(t, g, dir)
	spec.Saved = t.TempDir()
	refused(fault.Corrupt, spec)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		path, whole := filepath.Join(dir, e.Name()), filepath.Join(t.TempDir(), "whole")
		size := copied(t, path, whole)
		for _, at := range []int64{0, size / 2, size - 1} {
			flip(t, path, at)
			if err := refused(fault.Corrupt, s.again(t, g, dir)); err != nil && !strings.Contains(err.Error(), e.Name()+" is damaged") {
				t.Errorf("%s, changed at %d: %v", e.Name(), at, err)
			}
			flip(t, path, at)
		}
		if err := os.Rename(whole, path); err != nil {
			t.Fatal(err)
		}
	}
	m := s.startAs(t, s.again(t, g, dir)) // the folder has its original content again
	m.renew(t)
	m.answers(t)
}

// copied moves a file to another path and puts a copy at the old path. A change to the copy then
// does not change other hard links of the file.
func copied(t *testing.T, path, whole string) (size int64) {
	t.Helper()
	if err := os.Rename(path, whole); err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(whole)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		t.Fatal(err)
	}
	to, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if err := errors.Join(disk.Copy(to, from), to.Chmod(info.Mode().Perm())); err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// flip inverts one bit of a file.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}
