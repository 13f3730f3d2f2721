package qemu

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// TestMemoryIsReadOnlyWhereItChanged checks a saved machine whose record has a digest that its memory never had, so that whether it is read shows: it is once somebody
// has written to it, not because names of it have come and gone.
func TestMemoryIsReadOnlyWhereItChanged(t *testing.T) {
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
	for now := r.RAM.Stamp; now == r.RAM.Stamp; now, err = disk.StampOf(ram) { // the file system's clock is coarse
		other := filepath.Join(dir, "other")
		if err := errors.Join(err, os.Link(ram, other), os.Remove(other)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.check(t.Context(), ram, devices, nil); err != nil {
		t.Errorf("when it has had another name: %v", err)
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
