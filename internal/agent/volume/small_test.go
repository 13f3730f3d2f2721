package volume

import (
	"os"
	"path/filepath"
	"testing"
)

func TestUnlink(t *testing.T) {
	dir := t.TempDir()
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "etc/folder"), 0o755), os.WriteFile(filepath.Join(dir, "etc/file"), nil, 0o644),
		os.Symlink("file", filepath.Join(dir, "etc/link")), os.Symlink("/run/nowhere", filepath.Join(dir, "etc/dangling")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, stays := range map[string]bool{
		"/etc/folder": true, "/etc/file": true, "/etc/link": false, "/etc/dangling": false, "/etc/none": false, "/none/none": false, "/etc/file/none": false,
	} {
		err := Unlink(int(root.Fd()), name)
		if _, there := os.Lstat(dir + name); err != nil || there == nil != stays {
			t.Errorf("%s: %v, %v", name, err, there)
		}
	}
}
