package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestExportNeedsForce(t *testing.T) {
	above := t.TempDir()
	in := func(name string) string { return filepath.Join(above, name) }
	put(t, in("file"), "old", 0o600)
	check(t, os.Mkdir(in("folder"), 0o755))
	check(t, os.Symlink("none", in("dangling")))
	before := describe(t, above)
	for _, name := range []string{"file", "folder", "dangling", "folder/"} {
		_, err := extract(t, archiveOf(t, file("f")), in(name), false)
		wantKind(t, err, fault.Exists, in(name))
		if fault.HintOf(err) != "--force replaces it" {
			t.Errorf("hint %q", fault.HintOf(err))
		}
	}
	same(t, describe(t, above), before)
	// Another process can also create the file during the export.
	for _, flags := range []bool{true, false} {
		restore := withoutFlags(!flags)
		for _, e := range []entry{file("f"), dir("d"), link("l", "x")} {
			r := io.MultiReader(bytes.NewReader(archiveOf(t, e)), readerFunc(func([]byte) (int, error) {
				put(t, in("late"), "mine", 0o600)
				return 0, io.EOF
			}))
			_, err := Extract(t.Context(), r, in("late"), Options{})
			if b, _ := os.ReadFile(in("late")); string(b) != "mine" || err == nil || e.Typeflag != tar.TypeDir && fault.KindOf(err) != fault.Exists {
				t.Errorf("%c: it is %q now, %v", e.Typeflag, b, err)
			}
			check(t, os.Remove(in("late")))
		}
		restore()
	}
	only(t, above, "dangling", "file", "folder")
}

func TestForceReplacesAtomically(t *testing.T) {
	for _, without := range []bool{false, true} {
		restore := withoutFlags(without)
		for old, make := range map[string]func(path string){
			"nothing": func(string) {},
			"file":    func(path string) { put(t, path, "old", 0o400) },
			"link":    func(path string) { check(t, os.Symlink("../precious", path)) },
			"empty":   func(path string) { check(t, os.Mkdir(path, 0o755)) },
			"folder": func(path string) {
				check(t, os.MkdirAll(filepath.Join(path, "a/b"), 0o755))
				put(t, filepath.Join(path, "a/b/old"), "old", 0o400)
			},
			"unwritable": func(path string) {
				check(t, os.MkdirAll(filepath.Join(path, "a"), 0o755))
				check(t, os.Chmod(filepath.Join(path, "a"), 0o100))
			},
		} {
			for _, entries := range [][]entry{{file("f")}, {link("l", "x")}, {dir("d"), file("d/new")}} {
				top := t.TempDir()
				above := filepath.Join(top, "above")
				check(t, os.Mkdir(above, 0o755))
				put(t, filepath.Join(top, "precious"), "precious", 0o600)
				target := filepath.Join(above, "target")
				make(target)
				summary, err := extract(t, archiveOf(t, entries...), target, true)
				if err != nil || summary.Files+summary.Symlinks != 1 {
					t.Errorf("%s by %c: %+v, %v", old, entries[0].Typeflag, summary, err)
				}
				info, err := os.Lstat(target)
				check(t, err)
				if info.IsDir() != (entries[0].Typeflag == tar.TypeDir) || info.IsDir() && exists(filepath.Join(target, "a")) {
					t.Errorf("%s by %c: it is %v now", old, entries[0].Typeflag, info.Mode())
				}
				only(t, above, "target")
				if b, err := os.ReadFile(filepath.Join(top, "precious")); string(b) != "precious" {
					t.Errorf("%s by %c: file outside: got %q, %v, want it unchanged", old, entries[0].Typeflag, b, err)
				}
			}
		}
		restore()
	}
}

func TestFailedForceKeepsTarget(t *testing.T) {
	above := t.TempDir()
	target := filepath.Join(above, "target")
	check(t, os.MkdirAll(filepath.Join(target, "a"), 0o755))
	put(t, filepath.Join(target, "a/old"), "old", 0o600)
	before := describe(t, target)
	whole := archiveOf(t, dir("d"), file("d/f"))
	for name, stream := range map[string][]byte{"hostile": archiveOf(t, dir("d"), file("d/../../f")), "cut": whole[:len(whole)-1024], "nothing": archiveOf(t)} {
		_, err := extract(t, stream, target, true)
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
		only(t, above, "target")
	}
	same(t, describe(t, target), before)
	for _, at := range []string{"first", "second"} {
		calls := 0
		old := renameat2
		renameat2 = func(a int, from string, b int, to string, flags uint) error {
			if calls++; at == "second" && calls == 1 {
				return unix.ENOENT
			}
			return unix.EIO
		}
		_, err := extract(t, whole, target, true)
		renameat2 = old
		if !errors.Is(err, unix.EIO) {
			t.Errorf("%s: %v", at, err)
		}
		only(t, above, "target")
		if b, err := os.ReadFile(filepath.Join(target, "a/old")); string(b) != "old" {
			t.Errorf("%s: %q, %v", at, b, err)
		}
	}
}

// TestForceNamesLeftover mounts a file system inside of the replaced directory, so that the
// export can't remove that directory.
func TestForceNamesLeftover(t *testing.T) {
	testenv.NeedsRoot(t, "mount")
	above, mounted := t.TempDir(), t.TempDir()
	put(t, filepath.Join(mounted, "precious"), "x", 0o600)
	target := filepath.Join(above, "target")
	check(t, os.MkdirAll(filepath.Join(target, "mnt"), 0o755))
	if err := unix.Mount(mounted, filepath.Join(target, "mnt"), "", unix.MS_BIND, ""); err != nil {
		testenv.Lacks(t, err)
	}
	summary, err := extract(t, archiveOf(t, file("f")), target, true)
	left, globErr := filepath.Glob(filepath.Join(above, ".pyro-export-*"))
	check(t, globErr)
	if len(left) != 1 {
		t.Fatalf("leftover: %q", left)
	}
	check(t, unix.Unmount(filepath.Join(left[0], "mnt"), unix.MNT_DETACH))
	wantKind(t, err, fault.Precondition, "the export is in place, but")
	if !strings.Contains(err.Error(), left[0]) || summary.Files != 1 || !exists(filepath.Join(mounted, "precious")) {
		t.Errorf("%v, %+v", err, summary)
	}
	if b, err := os.ReadFile(target); string(b) != "00000" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestInvalidTargets(t *testing.T) {
	above := t.TempDir()
	put(t, filepath.Join(above, "file"), "x", 0o600)
	for target, c := range map[string]struct {
		kind fault.Kind
		hint string
	}{
		filepath.Join(above, "none/deep/target"):       {fault.NotFound, `mkdir -p "` + filepath.Join(above, "none/deep") + `"`},
		filepath.Join(above, "file/target"):            {fault.Invalid, ""},
		filepath.Join(above, strings.Repeat("n", 256)): {fault.Invalid, ""},
		"/":  {fault.Invalid, ""},
		"":   {fault.Invalid, ""},
		"..": {fault.Exists, "--force replaces it"},
	} {
		_, err := extract(t, archiveOf(t, file("f")), target, false)
		if fault.KindOf(err) != c.kind || fault.HintOf(err) != c.hint {
			t.Errorf("%q: %v of kind %q, hint %q", target, err, fault.KindOf(err), fault.HintOf(err))
		}
	}
	only(t, above, "file")
}

// withoutFlags simulates a file system that does not support the flags of renameat2.
func withoutFlags(without bool) (restore func()) {
	old := renameat2
	if without {
		renameat2 = func(int, string, int, string, uint) error { return unix.EINVAL }
	}
	return func() { renameat2 = old }
}
