//go:build machine

package gvisor

import (
	"errors"
	"testing"

	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/machinetest"
)

// TestOwners changes the owner of a file and changes it back. The second change is through an open
// file, or through the file's other name, which the machine has forgotten in a pause.
func TestOwners(t *testing.T) {
	s := startStored(t, driverIn(t, machinetest.SharedDirs(t)), specOf(t, machinetest.Debian(t)), machine.TreeStorage{Folder: t.TempDir()})
	for name, back := range map[string]string{
		"chown": `os.chown("two", 0, 0)`, "lchown": `os.lchown("two", 0, 0)`, "fchown": `os.fchown(file, 0, 0)`,
		"empty path": `print(end="" if ctypes.CDLL(None).fchownat(file, b"", 0, 0, 0x1000) == 0 else "failed")`,
		"fchownat":   `os.chown("two", 0, 0, dir_fd=os.open(".", os.O_RDONLY), follow_symlinks=False)`,
	} {
		s.shell(t, "cd "+workspace+"; rm -f one two; >one; ln one two; sync")
		if err := errors.Join(s.sandbox().Pause(t.Context()), s.sandbox().Resume(t.Context())); err != nil {
			t.Fatal(err)
		}
		got := s.shell(t, "cd "+workspace+"; python3 -c '"+`
import ctypes, os
file = os.open("one", os.O_RDWR)
os.chown("one", 7, 8)
`+back+`
s = os.stat("one")
print(s.st_uid, s.st_gid)'`)
		if got != "0 0" {
			t.Errorf("%s: the owner is %s", name, got)
		}
	}
}
