package environment

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestFullDisk fills a small tmpfs. It needs root for the mount.
func TestFullDisk(t *testing.T) {
	cache := t.TempDir()
	if err := unix.Mount("none", cache, "tmpfs", 0, "size=48m"); err != nil {
		testenv.Lacks(t, "no mounts here: ", err)
	}
	defer unix.Unmount(cache, unix.MNT_DETACH)
	s := testStore(cache)
	for name, size := range map[string]int{"while the archive is read": 100 << 20, "at its end": 48<<20 - 64<<10} {
		debianSpace["debian:12"] = 0
		put(t, cache+"/content", "")
		s.bootstrap = sized(size)
		_, err := s.Pull(t.Context(), "debian:12", false, nil)
		checkFull(t, name, err)
		if left := leftovers(t, s); left != nil {
			t.Errorf("%s: left: %v", name, left)
		}
		if free := freeSpace(t, cache); free < 46<<20 {
			t.Errorf("%s: only %d MiB are free afterwards", name, free>>20)
		}
	}
	s.bootstrap = sized(1 << 20)
	if _, err := s.Pull(t.Context(), "debian:12", false, nil); err != nil {
		t.Errorf("a small one: %v", err)
	}
}

func sized(n int) func(context.Context, []string, string, io.Writer, progress.Func, string) error {
	return func(_ context.Context, _ []string, _ string, out io.Writer, _ progress.Func, _ string) error {
		return writeArchive(out, map[string]string{"big": strings.Repeat("x", n)})
	}
}

func freeSpace(t *testing.T, path string) int64 {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		t.Fatal(err)
	}
	return int64(stat.Bavail) * stat.Bsize
}

func checkFull(t *testing.T, name string, err error) {
	t.Helper()
	if fault.KindOf(err) != fault.Exhausted || fault.HintOf(err) != "pyro env prune" {
		t.Errorf("%s: kind %q, hint %q: %v", name, fault.KindOf(err), fault.HintOf(err), err)
	}
}

func TestTooLittleSpaceFailsEarly(t *testing.T) {
	defer func(was int64) { debianSpace["debian:12"] = was }(debianSpace["debian:12"])
	debianSpace["debian:12"] = 1 << 60
	cache := t.TempDir()
	s := testStore(cache)
	_, err := s.Pull(t.Context(), "debian:12", false, nil)
	checkFull(t, "pull", err)
	if builds(cache) != 0 {
		t.Error("it was tried all the same")
	}
}

func TestFullDiskDuringBuild(t *testing.T) {
	cache := t.TempDir()
	s := testStore(cache)
	s.bootstrap = func(_ context.Context, _ []string, _ string, out io.Writer, _ progress.Func, _ string) error {
		io.WriteString(out, "the beginning of an archive")
		return &os.PathError{Op: "write", Path: "packages", Err: unix.ENOSPC}
	}
	_, err := s.Pull(t.Context(), "debian:12", false, nil)
	checkFull(t, "pull", err)
	if left := leftovers(t, s); left != nil {
		t.Errorf("left: %v", left)
	}
}
