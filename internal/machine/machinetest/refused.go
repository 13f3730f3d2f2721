package machinetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
)

// savedRefused checks that what does not fit, or is not what was saved, is not gone on from.
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
			damaged := fmt.Sprintf("%s is damaged: block %d, the MiB at", e.Name(), at>>20)
			if e.Name() == "saved.json" || e.Name() == "ram" { // the record, and the memory of a template, are known by one digest
				damaged = e.Name() + " is damaged"
			}
			if err := refused(fault.Corrupt, s.again(t, g, dir)); err != nil && !strings.Contains(err.Error(), damaged) {
				t.Errorf("%s, changed at %d: %v", e.Name(), at, err)
			}
			flip(t, path, at)
		}
		if err := os.Rename(whole, path); err != nil {
			t.Fatal(err)
		}
	}
	m := s.startAs(t, s.again(t, g, dir)) // it is as it was
	m.renew(t)
	m.answers(t)
}

// copied puts a copy in the place of a file, which may have names elsewhere, and keeps the file.
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

// flip changes one bit of a file.
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
