package storage

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSpread checks the flag of the folder on ext4. Elsewhere it only checks that nothing breaks.
func TestSpread(t *testing.T) {
	for _, parent := range []string{"", "/var/tmp"} { // /tmp is often in memory
		dir, err := os.MkdirTemp(parent, "pyro-spread-*")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		Spread(filepath.Join(dir, "missing"))
		Spread(dir)
		Spread(dir)
		if err := os.Mkdir(filepath.Join(dir, "workspace"), 0o700); err != nil {
			t.Error(err)
		}
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err != nil {
			t.Fatal(err)
		}
		if fs.Type != unix.EXT4_SUPER_MAGIC {
			continue
		}
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
		f.Close()
		if err != nil || flags&topFolder == 0 {
			t.Errorf("the flags of %s are %#x, %v", dir, flags, err)
		}
	}
}
