package mkext4

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// mounted mounts an image. It needs root.
func mounted(t *testing.T, path string) (folder string, unmount func()) {
	t.Helper()
	testenv.NeedsRoot(t, "mount")
	folder = t.TempDir()
	if out, err := exec.Command("mount", "-o", "loop", path, folder).CombinedOutput(); err != nil {
		testenv.Lacks(t, "no loop devices: ", err, ": ", string(out))
	}
	unmount = func() {
		unix.Mount("", folder, "", unix.MS_REMOUNT|unix.MS_RDONLY, "") // This flushes the file system even if another mount namespace has a copy of the mount.
		unix.Unmount(folder, 0)
	}
	t.Cleanup(unmount)
	return folder, unmount
}

// TestKernelWritesToImage lets the kernel write to an image until the image is full. The kernel
// writes to existing files and to small, large and new directories. The test then deletes many of
// the files.
func TestKernelWritesToImage(t *testing.T) {
	w, path := begin(t)
	for i := range 3000 {
		e, content := text(fmt.Sprint(i))
		w.mustAdd(t, fmt.Sprintf("large/file-%d", i), e, content)
	}
	e, content := text("was there")
	w.mustAdd(t, "small/file", e, content)
	must(t, w.Finish())
	folder, unmount := mounted(t, path)
	in := func(format string, args ...any) string { return filepath.Join(folder, fmt.Sprintf(format, args...)) }
	for i := range 3000 {
		if got, err := os.ReadFile(in("large/file-%d", i)); string(got) != fmt.Sprint(i) {
			t.Fatalf("%q, %v", got, err)
		}
	}
	for _, dir := range []string{"large", "small", "fresh"} {
		if err := os.MkdirAll(in("%s", dir), 0o755); err != nil {
			t.Fatal(err)
		}
		for i := range 5000 {
			must(t, os.WriteFile(in("%s/a-longer-name-of-a-file-%d", dir, i), bytes.Repeat([]byte("x"), i), 0o644))
		}
	}
	must(t, os.WriteFile(in("small/file"), bytes.Repeat([]byte("y"), 1<<20), 0o644))
	filled := 0
	for ; filled < 100; filled++ {
		f, err := os.Create(in("fill-%d", filled))
		if err != nil {
			break
		}
		err = unix.Fallocate(int(f.Fd()), 0, 0, 512<<20)
		if err = errors.Join(err, f.Close()); err != nil {
			if !errors.Is(err, unix.ENOSPC) {
				t.Fatal(err)
			}
			break
		}
	}
	if filled < 28 || filled > 32 {
		t.Errorf("%d times 512 MiB were free", filled)
	}
	for i := range 5000 {
		if i%3 != 0 {
			must(t, os.Remove(in("large/a-longer-name-of-a-file-%d", i)))
		}
	}
	must(t, os.RemoveAll(in("small")))
	unmount()
	clean(t, path)
}

func TestKernelAcceptsManyFolders(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 270 MB")
	}
	w, path := begin(t)
	for i := range 65_100 { // more than a link count can represent
		w.mustAdd(t, fmt.Sprintf("many/%d", i), Entry{Mode: folders}, nil)
	}
	finished(t, w, path)
	folder, unmount := mounted(t, path)
	must(t, os.Mkdir(filepath.Join(folder, "many/another"), 0o755))
	must(t, os.Remove(filepath.Join(folder, "many/1")))
	unmount()
	clean(t, path)
}
