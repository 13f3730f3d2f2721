package qemu

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// TestChangedMemoryIsReread checks that check reads the memory only after a write to its
// file, not after a change of its hard links. The digest in the record is wrong, so check fails if
// it reads the memory.
func TestChangedMemoryIsReread(t *testing.T) {
	dir := t.TempDir()
	ram := filepath.Join(dir, templateRAM)
	if err := os.WriteFile(ram, []byte("memory"), 0o600); err != nil {
		t.Fatal(err)
	}
	devices, err := os.Create(filepath.Join(dir, savedDevices))
	if err != nil {
		t.Fatal(err)
	}
	defer devices.Close()
	r := description{RAM: ramRecord{Digest: "another"}}
	if r.RAM.Stamp, err = disk.StampOf(ram); err != nil {
		t.Fatal(err)
	}
	// Repeats until the clock of the file system has advanced.
	for now := r.RAM.Stamp; now == r.RAM.Stamp; now, err = disk.StampOf(ram) {
		other := filepath.Join(dir, "other")
		if err := errors.Join(err, os.Link(ram, other), os.Remove(other)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.check(t.Context(), ram, devices, nil); err != nil {
		t.Errorf("after a rename of the file: %v", err)
	}
	for now := r.RAM.Stamp; now.MTime == r.RAM.Stamp.MTime; now, err = disk.StampOf(ram) {
		if err := errors.Join(err, os.WriteFile(ram, []byte("Memory"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.check(t.Context(), ram, devices, nil); fault.KindOf(err) != fault.Corrupt {
		t.Errorf("when it was written to: %v", err)
	}
}
