package tree

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestWriteMatchesTar(t *testing.T) {
	src := fullTree(t)
	for _, name := range []string{"socket", "null", "out-too"} { // entries that Write rejects or that it counts differently
		os.Remove(filepath.Join(src, name))
	}
	check(t, os.Remove(filepath.Join(src, "fifo")))
	archive := filepath.Join(t.TempDir(), "archive")
	run(t, "tar", "-C", src, "--format=pax", "--owner=0", "--group=0", "-cf", archive, ".")
	oracle, dst, twin := filepath.Join(t.TempDir(), "oracle"), filepath.Join(t.TempDir(), "written"), filepath.Join(t.TempDir(), "twin")
	check(t, os.Mkdir(oracle, 0o755))
	run(t, "tar", "-C", oracle, "--no-same-owner", "-pxf", archive)
	check(t, os.Chmod(oracle, 0o755))
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	for name, options := range map[string]func(io.Reader) io.Reader{"a file": nil, "a stream": iotest.OneByteReader} {
		f, err := os.Open(archive)
		check(t, err)
		stream := io.Reader(f)
		if options != nil {
			stream = struct{ io.Reader }{f}
		}
		stats, err := Write(t.Context(), stream, dst, twin)
		check(t, errors.Join(err, f.Close()))
		if want := (Stats{Files: 309, Folders: 8, Symlinks: 3, Links: 2, Bytes: fullTreeBytes}); stats != want {
			t.Errorf("%s: got %+v, want %+v", name, stats, want)
		}
		want := describe(t, oracle)
		for _, folder := range []string{dst, twin} {
			got := describe(t, folder)
			same(t, got[1:], want[1:]) // The time of the top differs.
			if !strings.HasPrefix(got[0], `"." 40755 `) {
				t.Errorf("got top %s, want mode 40755", got[0])
			}
			check(t, Remove(t.Context(), folder)) // This must not change the other folder.
		}
	}
	check(t, Remove(t.Context(), oracle))
}

func TestWrittenFoldersInheritNothing(t *testing.T) {
	above := t.TempDir()
	check(t, os.Chmod(above, 0o777|os.ModeSetgid))
	if isRoot {
		check(t, os.Chown(above, 0, 1234))
	}
	dst := filepath.Join(above, "dst")
	_, err := Write(t.Context(), bytes.NewReader(archiveOf(t,
		tar.Header{Typeflag: tar.TypeDir, Name: "d/", Mode: 0o750, ModTime: time.Unix(5, 0)},
		tar.Header{Typeflag: tar.TypeReg, Name: "d/f", Mode: 0o6751, Size: 1},
		tar.Header{Typeflag: tar.TypeReg, Name: "g", Mode: 0, Size: 1})), dst)
	check(t, err)
	for name, mode := range map[string]uint32{".": 0o40755, "d": 0o40750, "d/f": 0o106751, "g": 0o100000} {
		var st unix.Stat_t
		check(t, unix.Lstat(filepath.Join(dst, name), &st))
		if st.Mode != mode || int(st.Gid) != os.Getegid() || int(st.Uid) != os.Geteuid() {
			t.Errorf("%s: got mode %o and owner %d:%d, want %o and the caller", name, st.Mode, st.Uid, st.Gid, mode)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	file := func(name string) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: 3}
	}
	folder := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755} }
	link := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
	}
	hard := func(name, to string) tar.Header { return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to} }
	outside := t.TempDir()
	put(t, filepath.Join(outside, "f"), "outside", 0o644)
	before := describe(t, outside)
	for name, c := range map[string]struct {
		entries []tar.Header
		text    string
	}{
		"a name outside":                   {[]tar.Header{file("../f")}, `"../f": invalid name`},
		"a name outside, through a folder": {[]tar.Header{folder("a"), file("a/../../f")}, `"../f"`},
		"an absolute name":                 {[]tar.Header{file(outside + "/f")}, "invalid name"},
		"no name":                          {[]tar.Header{file(".")}, "invalid name"},
		"a part that is too long":          {[]tar.Header{file(strings.Repeat("n", 256))}, "invalid name"},
		"a name that is too long":          {[]tar.Header{file(strings.Repeat("n/", 2050) + "n")}, "too long"},
		"a file in a link":                 {[]tar.Header{link("a", outside), file("a/f")}, `"a/f": a parent is a link, or not a folder`},
		"a file behind a link":             {[]tar.Header{folder("b"), link("b/a", outside), folder("b/a/c")}, "a parent is a link"},
		"a file in a file":                 {[]tar.Header{file("a"), file("a/f")}, `"a/f": `}, // The pool might not have written the file "a" yet.
		"a file in nothing":                {[]tar.Header{file("a/f")}, "its folder does not exist"},
		"a file over a link":               {[]tar.Header{link("f", outside+"/f"), file("f")}, `"f": an entry of this name exists already`},
		"a file over a file":               {[]tar.Header{file("f"), file("f")}, "already"},
		"a folder over a folder":           {[]tar.Header{folder("f"), folder("f")}, "already"},
		"a hard link to an absolute path":  {[]tar.Header{hard("a", outside+"/f")}, "invalid name"},
		"a hard link to a file outside":    {[]tar.Header{hard("a", "../"+filepath.Base(outside)+"/f")}, "invalid name"},
		"a hard link to nothing":           {[]tar.Header{hard("a", "b")}, "not an existing file"},
		"a hard link to a folder":          {[]tar.Header{folder("b"), hard("a", "b")}, "not an existing file"},
		"a hard link to a symbolic link":   {[]tar.Header{link("b", outside+"/f"), hard("a", "b")}, "not an existing file"},
		"a hard link behind a link":        {[]tar.Header{link("b", outside), hard("a", "b/f")}, "not an existing file"},
		"a hard link to a later file":      {[]tar.Header{hard("a", "b"), file("b")}, "not an existing file"},
		"a link to nothing":                {[]tar.Header{link("a", "")}, "invalid link target"},
		"a link that is too long":          {[]tar.Header{link("a", strings.Repeat("x", 4096))}, "invalid link target"},
		"a device":                         {[]tar.Header{{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}}, "unknown kind"},
		"a FIFO":                           {[]tar.Header{{Typeflag: tar.TypeFifo, Name: "fifo"}}, "unknown kind"},
		"an error from a later entry":      {[]tar.Header{file("f"), file("f"), folder("a"), folder("b"), folder("c")}, `"f": an entry of this name`},
	} {
		dst := filepath.Join(t.TempDir(), "dst")
		_, err := Write(t.Context(), bytes.NewReader(archiveOf(t, c.entries...)), dst)
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), c.text) || exists(dst) {
			t.Errorf("%s: got %v of kind %q, want %q; destination exists: %v", name, err, fault.KindOf(err), c.text, exists(dst))
		}
	}
	same(t, describe(t, outside), before)
}

func TestReaderNeedsCompleteArchive(t *testing.T) {
	whole := archiveOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "f", Size: 700, Mode: 0o600}, tar.Header{Typeflag: tar.TypeDir, Name: "d", Mode: 0o700})
	for _, seekable := range []bool{false, true} {
		read := func(b []byte, limit int64) error {
			stream := io.Reader(bytes.NewReader(b))
			if !seekable {
				stream = struct{ io.Reader }{stream}
			}
			r := NewReader(t.Context(), stream, limit)
			for {
				if _, err := r.Next(); err == io.EOF {
					return nil
				} else if err != nil {
					return err
				}
			}
		}
		for n := 0; n < len(whole); n += 61 {
			err := read(whole[:n], NoLimit)
			if mark := len(whole) - 1024; n != mark+512 && fault.KindOf(err) != fault.Invalid {
				t.Fatalf("archive truncated at %d of %d: got %v, want kind %q", n, len(whole), err, fault.Invalid)
			}
		}
		check(t, read(whole, NoLimit))
		check(t, read(append(whole[:len(whole):len(whole)], make([]byte, 10<<10)...), NoLimit))
		wantKind(t, read(append(whole[:len(whole):len(whole)], whole...), NoLimit), fault.Invalid, "follows the end")
		wantKind(t, read(append(whole[:len(whole):len(whole)], 0, 0, 1), NoLimit), fault.Invalid, `"d": data follows the end of the archive`)
		wantKind(t, read(whole, 2000), fault.Exhausted, "more than 2000 bytes")
		wantKind(t, read(nil, NoLimit), fault.Invalid, "truncated")
		wantKind(t, read([]byte(strings.Repeat("nonsense", 1000)), NoLimit), fault.Invalid, "not a tar archive")
	}
}

func TestReaderReturnsSourceErrors(t *testing.T) {
	whole := archiveOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "f", Size: 1 << 20, Mode: 0o600})
	broken := errors.New("broken stream")
	dst := filepath.Join(t.TempDir(), "dst")
	for _, n := range []int{0, 100, 512, 5000, 1 << 20} {
		_, err := Write(t.Context(), io.MultiReader(bytes.NewReader(whole[:n]), iotest.ErrReader(broken)), dst)
		if !errors.Is(err, broken) || exists(dst) {
			t.Errorf("failure at %d: got %v, want %v", n, err, broken)
		}
	}
}

func TestFormatsOfRealTar(t *testing.T) {
	src := t.TempDir()
	check(t, os.Mkdir(filepath.Join(src, "d"), 0o755))
	put(t, filepath.Join(src, "d/f"), strings.Repeat("f", 1000), 0o644)
	put(t, filepath.Join(src, "d/long"+strings.Repeat("g", 80)), "long", 0o644)
	sparse, err := os.Create(filepath.Join(src, "d/sparse"))
	check(t, err)
	check(t, sparse.Truncate(10<<20))
	for i := range int64(20) {
		_, err := sparse.WriteAt([]byte("data"), i<<18+4096*i)
		check(t, err)
	}
	check(t, sparse.Close())
	for _, options := range [][]string{
		{"--format=v7"}, {"--format=oldgnu"}, {"--format=gnu"}, {"--format=ustar"}, {"--format=pax"}, {"--format=gnu", "-S"}, {"--format=pax", "-S"},
		{"--format=pax", "-S", "--sparse-version=0.0"}, {"--format=pax", "-S", "--sparse-version=0.1"}, {"--format=gnu", "--label=volume"},
		{"--format=pax", "--pax-option=globexthdr.name=g,comment=hello"}, {"--format=gnu", "-b", "400"}, {"--format=gnu", "-i"},
	} {
		archive, dst := filepath.Join(t.TempDir(), "archive"), filepath.Join(t.TempDir(), "dst")
		run(t, "tar", append(options, "-C", src, "-cf", archive, ".")...)
		for _, seekable := range []bool{true, false} {
			f, err := os.Open(archive)
			check(t, err)
			stream := io.Reader(f)
			if !seekable {
				stream = struct{ io.Reader }{f}
			}
			_, err = Write(t.Context(), stream, dst)
			f.Close()
			if err != nil {
				t.Errorf("%q: %v", options, err)
				continue
			}
			run(t, "diff", "-r", src, dst)
			check(t, Remove(t.Context(), dst))
		}
	}
}

func TestFullDiskLeavesNothing(t *testing.T) {
	testenv.NeedsRoot(t, "mount")
	small := t.TempDir()
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=1m"); err != nil {
		testenv.Lacks(t, err)
	}
	defer unix.Unmount(small, unix.MNT_DETACH)
	var many []tar.Header
	for i := range 40 {
		many = append(many, tar.Header{Typeflag: tar.TypeReg, Name: strings.Repeat("f", i+1), Size: 64 << 10, Mode: 0o644})
	}
	large := tar.Header{Typeflag: tar.TypeReg, Name: "large", Size: 4 << 20, Mode: 0o644}
	for _, entries := range [][]tar.Header{many, {large}} {
		_, err := Write(t.Context(), bytes.NewReader(archiveOf(t, entries...)), filepath.Join(small, "dst"))
		wantKind(t, err, fault.Exhausted, "no space left")
	}
	src := t.TempDir()
	put(t, filepath.Join(src, "large"), strings.Repeat("x", 4<<20), 0o644)
	_, err := Copy(t.Context(), filepath.Join(small, "dst"), src)
	wantKind(t, err, fault.Exhausted, "no space left")
	if left, _ := os.ReadDir(small); len(left) > 0 {
		t.Errorf("got %q on the disk, want nothing", left)
	}
}

// FuzzWrite checks that Write never writes outside the destination for any stream. It also checks
// that Write creates either a complete folder or no folder.
func FuzzWrite(f *testing.F) {
	f.Add(archiveOf(f,
		tar.Header{Typeflag: tar.TypeDir, Name: "d", Mode: 0o755}, tar.Header{Typeflag: tar.TypeReg, Name: "d/f", Size: 3, Mode: 0o644},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "d/l", Linkname: "../../x"}, tar.Header{Typeflag: tar.TypeLink, Name: "h", Linkname: "d/f"}))
	f.Add(archiveOf(f, tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: ".."}, tar.Header{Typeflag: tar.TypeReg, Name: "l/f", Size: 1}))
	f.Add(archiveOf(f, tar.Header{Typeflag: tar.TypeReg, Name: "../x", Size: 1, ModTime: time.Unix(1, 2), Format: tar.FormatPAX}))
	above := f.TempDir()
	dst := filepath.Join(above, "dst")
	check(f, os.WriteFile(filepath.Join(above, "x"), []byte("outside"), 0o600))
	f.Fuzz(func(t *testing.T, stream []byte) {
		stats, err := Write(t.Context(), bytes.NewReader(withChecksums(stream)), dst)
		if (err == nil) != exists(dst) {
			t.Fatalf("error %v, destination exists: %v", err, exists(dst))
		}
		if err == nil {
			entries := 0
			check(t, filepath.WalkDir(dst, func(string, fs.DirEntry, error) error { entries++; return nil }))
			if entries-1 > stats.Files+stats.Folders+stats.Symlinks+stats.Links {
				t.Errorf("got %d entries, stats are %+v", entries, stats)
			}
			check(t, Remove(t.Context(), dst))
		}
		if left, err := os.ReadDir(above); len(left) != 1 || err != nil {
			t.Fatalf("got %q outside, want only x, %v", left, err)
		}
		if b, err := os.ReadFile(filepath.Join(above, "x")); string(b) != "outside" {
			t.Fatalf("got content %q outside, want \"outside\", %v", b, err)
		}
	})
}
