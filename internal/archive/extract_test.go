package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// only fails where a folder holds anything but what is named.
func only(t testing.TB, folder string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	check(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(names, " ") {
		t.Errorf("%s holds %q, want %q", folder, got, names)
	}
}

func extract(t testing.TB, stream []byte, target string, force bool) (Summary, error) {
	t.Helper()
	return Extract(t.Context(), struct{ io.Reader }{bytes.NewReader(stream)}, target, Options{Force: force})
}

func TestAnExportIsWhatTarUnpacks(t *testing.T) {
	src := project(t)
	defer os.Chmod(filepath.Join(src, "closed"), 0o700)
	defer os.Chmod(filepath.Join(src, "src"), 0o700)
	check(t, os.Chmod(filepath.Join(src, "src"), 0o500))
	stream := filepath.Join(t.TempDir(), "stream")
	for _, top := range []string{"project", "."} {
		folder, oracle, above := filepath.Dir(src), t.TempDir(), t.TempDir()
		if top == "." {
			folder = src
		}
		run(t, "tar", "--format=pax", "-C", folder, "-cf", stream, top)
		run(t, "tar", "-C", oracle, "--no-same-owner", "-pxf", stream)
		b, err := os.ReadFile(stream)
		check(t, err)
		old := syscall.Umask(0o077)
		target := filepath.Join(above, "exported")
		summary, err := extract(t, b, target, false)
		syscall.Umask(old)
		check(t, err)
		if want := (Summary{Files: 10, Directories: 48, Symlinks: 4, HardLinks: 2, OutwardLinks: 2, Bytes: 13 + 10 + 1 + 1_600_000 + 2 + 1 + 1 + 4 + 3<<20}); summary != want {
			t.Errorf("got %+v, want %+v", summary, want)
		}
		want := filepath.Join(oracle, top)
		for _, name := range []string{"src/suid", "shared"} { // lose their set-id and sticky bits
			var st unix.Stat_t
			check(t, unix.Stat(filepath.Join(want, name), &st))
			check(t, unix.Chmod(filepath.Join(want, name), st.Mode&0o777))
		}
		same(t, describe(t, target), describe(t, want))
		only(t, above, "exported")
		check(t, tree.Remove(t.Context(), target))
		check(t, tree.Remove(t.Context(), want))
	}
}

func TestAnExportOfOneThing(t *testing.T) {
	old := time.Unix(1_000_000_000, 5)
	for name, c := range map[string]struct {
		entry entry
		want  string
		sum   Summary
	}{
		"a file":            {entry{Typeflag: tar.TypeReg, Name: "f", Mode: 0o6751, Size: 5, ModTime: old, Format: tar.FormatPAX}, `"." 100751 1000000000.000000005 1 links, as ".", 5 bytes of "00000"`, Summary{Files: 1, Bytes: 5}},
		"a link":            {entry{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "f", ModTime: old, Format: tar.FormatPAX}, `"." 120777 1000000000.000000005 to f`, Summary{Symlinks: 1, OutwardLinks: 1}},
		"a folder":          {entry{Typeflag: tar.TypeDir, Name: "d/", Mode: 0o1700, ModTime: old, Format: tar.FormatPAX}, `"." 40700 1000000000.000000005`, Summary{}},
		"a closed folder":   {entry{Typeflag: tar.TypeDir, Name: "d/", Mode: 0, ModTime: old, Format: tar.FormatPAX}, `"." 40000 1000000000.000000005`, Summary{}},
		"a workspace":       {entry{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755, ModTime: old, Format: tar.FormatPAX}, `"." 40755 1000000000.000000005`, Summary{}},
		"a name like a way": {entry{Typeflag: tar.TypeReg, Name: "./f", Mode: 0o600, Size: 5, ModTime: old, Format: tar.FormatPAX}, `"." 100600 1000000000.000000005 1 links, as ".", 5 bytes of "00000"`, Summary{Files: 1, Bytes: 5}},
	} {
		above := t.TempDir()
		target := filepath.Join(above, "target")
		summary, err := extract(t, archiveOf(t, c.entry), target, false)
		check(t, err)
		if c.entry.Mode == 0 && c.entry.Typeflag == tar.TypeDir && !isRoot {
			check(t, os.Remove(target))
			continue
		}
		if got := describe(t, target); len(got) != 1 || got[0] != c.want || summary != c.sum {
			t.Errorf("%s: %q, %+v", name, got, summary)
		}
		only(t, above, "target")
	}
}

func TestAnExportDoesNotReplaceUnasked(t *testing.T) {
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
	// It may also have come there meanwhile.
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

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// withoutFlags makes the kernel one that doesn't know flags of renames.
func withoutFlags(without bool) (restore func()) {
	old := renameat2
	if without {
		renameat2 = func(int, string, int, string, uint) error { return unix.EINVAL }
	}
	return func() { renameat2 = old }
}

func TestForceReplacesAsAWhole(t *testing.T) {
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
					t.Errorf("%s by %c: outside it is %q, %v", old, entries[0].Typeflag, b, err)
				}
			}
		}
		restore()
	}
}

func TestForceKeepsTheOldWhereItFails(t *testing.T) {
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

// TestForceSaysWhereTheOldIsLeft has something mounted in what is replaced, which isn't emptied.
func TestForceSaysWhereTheOldIsLeft(t *testing.T) {
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
		t.Fatalf("%q is left", left)
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

func TestTargetsThatCanNotBe(t *testing.T) {
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

func TestHostileStreams(t *testing.T) {
	top := t.TempDir()
	above := filepath.Join(top, "above")
	check(t, os.Mkdir(above, 0o755))
	put(t, filepath.Join(top, "precious"), "precious", 0o600)
	for name, c := range map[string]struct {
		entries []entry
		says    string
	}{
		"nothing":                      {nil, "there is nothing in the stream"},
		"a first that climbs":          {[]entry{file("../precious")}, `entry "../precious": its name climbs`},
		"a first that is absolute":     {[]entry{file("/precious")}, "its name is absolute"},
		"a first of two words":         {[]entry{file("a/b")}, "whose name is one word"},
		"a first without a name":       {[]entry{file(".")}, "whose name is one word"},
		"a first that is a device":     {[]entry{{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}}, "a device or a FIFO"},
		"a first that is a FIFO":       {[]entry{{Typeflag: tar.TypeFifo, Name: "p"}}, "a device or a FIFO"},
		"a first that is a hard link":  {[]entry{hard("a", "../precious")}, "hard link out of the export"},
		"two files":                    {[]entry{file("a"), file("b")}, `entry "b": it is in no folder of the export`},
		"a file twice":                 {[]entry{file("a"), file("a")}, "it is in no folder"},
		"a file in a file":             {[]entry{file("a"), file("a/b")}, "it is in no folder"},
		"a file in a first link":       {[]entry{link("a", ".."), file("a/precious")}, "it is in no folder"},
		"two folders":                  {[]entry{dir("a"), dir("b")}, `entry "b": it is not in "a", the first`},
		"a folder twice":               {[]entry{dir("a"), dir("a")}, "a second time"},
		"the top twice":                {[]entry{dir("."), dir("./")}, "a second time"},
		"a name that climbs":           {[]entry{dir("a"), file("a/../../precious")}, `entry "a/../../precious": its name climbs`},
		"a name that climbs from .":    {[]entry{dir("."), file("../precious")}, "its name climbs"},
		"a file through a link":        {[]entry{dir("a"), link("a/l", "../.."), file("a/l/precious")}, `entry "a/l/precious": a folder on its way is none, or a link`},
		"a folder through a link":      {[]entry{dir("a"), link("a/l", ".."), dir("a/l/d")}, "a folder on its way is none, or a link"},
		"a file over a link":           {[]entry{dir("a"), link("a/l", "../../precious"), file("a/l")}, "something of this name already"},
		"a link over a folder":         {[]entry{dir("a"), dir("a/d"), link("a/d", "../..")}, "something of this name already"},
		"a hard link out":              {[]entry{dir("a"), hard("a/h", "../precious")}, `hard link to "../precious": its name climbs`},
		"a hard link out by name":      {[]entry{dir("a"), hard("a/h", "precious")}, `it is not in "a"`},
		"a hard link to itself":        {[]entry{dir("a"), hard("a/h", "a/h")}, "a file that is not there"},
		"a hard link to the top":       {[]entry{dir("a"), hard("a/h", "a")}, "a second time"},
		"a hard link through a link":   {[]entry{dir("a"), link("a/l", "../.."), hard("a/h", "a/l/precious")}, "a file that is not there"},
		"a hard link to a link":        {[]entry{dir("a"), link("a/l", "../../precious"), hard("a/h", "a/l")}, "a file that is not there"},
		"a device":                     {[]entry{dir("a"), {Typeflag: tar.TypeBlock, Name: "a/sda"}}, `entry "a/sda": it is a device or a FIFO`},
		"a FIFO":                       {[]entry{dir("a"), {Typeflag: tar.TypeFifo, Name: "a/p"}}, "a device or a FIFO"},
		"a link to nothing":            {[]entry{dir("a"), link("a/l", "")}, "link to nothing"},
		"an unknown kind":              {[]entry{dir("a"), {Typeflag: 'X', Name: "a/x"}}, "is not known"},
		"a file without its folder":    {[]entry{dir("a"), file("a/b/c")}, "its folder is not there"},
		"a file that is there already": {[]entry{dir("a"), file("a/f"), file("a/f"), dir("a/g")}, "something of this name already"},
		"a part that is too long":      {[]entry{dir("a"), file("a/" + strings.Repeat("n", 256))}, "255 bytes"},
		"a name that grows by its way": {[]entry{dir("a"), dir("a/" + strings.Repeat("n/", 2030) + "n")}, ""},
		"the name of what is staged":   {[]entry{dir("."), link(".pyro-export-x", "../.."), file(".pyro-export-x/precious")}, "none, or a link"},
	} {
		for _, target := range []string{"target", "precious"} {
			_, err := extract(t, archiveOf(t, c.entries...), filepath.Join(above, target), true)
			if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), above) {
				t.Errorf("%s: %v of kind %q", name, err, fault.KindOf(err))
			}
		}
		only(t, above)
	}
	only(t, top, "above", "precious")
	if b, err := os.ReadFile(filepath.Join(top, "precious")); string(b) != "precious" {
		t.Errorf("outside it is %q, %v", b, err)
	}
}

func TestStreamsThatAreTooMuch(t *testing.T) {
	above := t.TempDir()
	target := filepath.Join(above, "target")
	whole := archiveOf(t, dir("d"), file("d/a"), file("d/b"))
	for _, c := range []struct {
		limits Limits
		kind   fault.Kind
	}{{Limits{Bytes: 10, Entries: 3}, ""}, {Limits{Bytes: 9}, fault.Exhausted}, {Limits{Entries: 2}, fault.Exhausted}} {
		_, err := Extract(t.Context(), bytes.NewReader(whole), target, Options{Force: true, Limits: c.limits})
		if fault.KindOf(err) != c.kind {
			t.Errorf("%+v: %v of kind %q", c.limits, err, fault.KindOf(err))
		}
	}
	only(t, above, "target")
	if !isRoot {
		return
	}
	small := t.TempDir()
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=1m"); err != nil {
		testenv.Lacks(t, err)
	}
	defer unix.Unmount(small, unix.MNT_DETACH)
	large := file("d/large")
	large.Size = 4 << 20
	put(t, filepath.Join(small, "target"), "old", 0o600)
	_, err := extract(t, archiveOf(t, dir("d"), file("d/a"), large), filepath.Join(small, "target"), true)
	wantKind(t, err, fault.Exhausted, "no space left")
	only(t, small, "target")
	if b, _ := os.ReadFile(filepath.Join(small, "target")); string(b) != "old" {
		t.Errorf("the old one is %q", b)
	}
}

func TestAnExportThatIsCutLeavesNothing(t *testing.T) {
	above := t.TempDir()
	target := filepath.Join(above, "target")
	big := file("d/big")
	big.Size = 1 << 20
	whole := archiveOf(t, dir("d"), file("d/a"), big, file("d/b"))
	broken := errors.New("the line is cut")
	for n := 0; n < len(whole); n += 10_007 {
		_, err := extract(t, whole[:n], target, false)
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("at %d: %v", n, err)
		}
		if _, err := Extract(t.Context(), io.MultiReader(bytes.NewReader(whole[:n]), iotest.ErrReader(broken)), target, Options{}); !errors.Is(err, broken) {
			t.Errorf("at %d: %v", n, err)
		}
		only(t, above)
	}
	for step := range 12 {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := Extract(ctx, &cancelling{whole, step, cancel}, target, Options{})
		if err != nil && fault.KindOf(err) != fault.Canceled || err == nil && ctx.Err() != nil {
			t.Errorf("step %d: %v", step, err)
		}
		cancel()
		if err == nil {
			check(t, tree.Remove(t.Context(), target))
		}
		only(t, above)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Extract(canceled, bytes.NewReader(whole), target, Options{}); fault.KindOf(err) != fault.Canceled {
		t.Error(err)
	}
	only(t, above)
}

// cancelling cancels when it is read for the so many-th time.
type cancelling struct {
	left   []byte
	reads  int
	cancel func()
}

func (c *cancelling) Read(p []byte) (int, error) {
	if c.reads--; c.reads < 0 {
		c.cancel()
	}
	if len(c.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 100_000)], c.left)
	c.left = c.left[n:]
	return n, nil
}

// FuzzExtract holds that an export is made whole or not at all, and that nothing beside it is touched.
func FuzzExtract(f *testing.F) {
	f.Add(archiveOf(f, dir("d"), file("d/f"), link("d/l", "../../x"), hard("d/h", "d/f"), dir("d/e"), file("d/e/g")), false)
	f.Add(archiveOf(f, dir("."), link("l", ".."), file("l/precious"), file("../precious")), true)
	f.Add(archiveOf(f, file("f")), true)
	f.Add(archiveOf(f, link("l", "/etc")), true)
	f.Add(archiveOf(f, dir("d"), hard("d/h", "../precious"), entry{Typeflag: tar.TypeChar, Name: "d/c"}), false)
	top := f.TempDir()
	above := filepath.Join(top, "above")
	target := filepath.Join(above, "target")
	check(f, os.Mkdir(above, 0o755))
	put(f, filepath.Join(top, "precious"), "precious", 0o600)
	put(f, filepath.Join(above, "precious"), "precious", 0o600)
	f.Fuzz(func(t *testing.T, stream []byte, old bool) {
		if old {
			put(t, target, "old", 0o600)
		}
		_, err := Extract(t.Context(), bytes.NewReader(resummed(stream)), target, Options{Force: true, Limits: Limits{Bytes: 1 << 20, Entries: 100}})
		if err != nil {
			if kind := fault.KindOf(err); kind != fault.Invalid && kind != fault.Exhausted {
				t.Errorf("%v of kind %q", err, kind)
			}
			if b, err := os.ReadFile(target); old && string(b) != "old" || !old && exists(target) {
				t.Fatalf("what was there is %q, %v", b, err)
			}
		} else if !exists(target) {
			t.Error("there is nothing")
		}
		check(t, tree.Remove(t.Context(), target))
		only(t, above, "precious")
		only(t, top, "above", "precious")
		for _, folder := range []string{top, above} {
			if b, err := os.ReadFile(filepath.Join(folder, "precious")); string(b) != "precious" {
				t.Fatalf("beside it is %q, %v", b, err)
			}
		}
	})
}
