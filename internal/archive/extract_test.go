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
)

// only fails the test if the content of a directory differs from names.
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

func TestExportMatchesTar(t *testing.T) {
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
		for _, name := range []string{"src/suid", "shared"} { // Extract drops set-id and sticky bits.
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

func TestExportSingleFile(t *testing.T) {
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

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestTruncatedExportLeavesNothing(t *testing.T) {
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

// cancelling is a reader that cancels a context after a number of reads.
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

// FuzzExtract checks that an export is complete or absent. It also checks that an export does not
// change other files.
func FuzzExtract(f *testing.F) {
	f.Add(archiveOf(f, dir("d"), file("d/f"), link("d/l", "../../x"), hard("d/h", "d/f"), dir("d/e"), file("d/e/g")), false)
	f.Add(archiveOf(f, dir("."), link("l", ".."), file("l/precious"), file("../precious")), true)
	f.Add(archiveOf(f, file("f")), true)
	f.Add(archiveOf(f, link("l", "/etc")), true)
	f.Add(archiveOf(f, dir("d"), hard("d/h", "../precious"), entry{Typeflag: tar.TypeChar, Name: "d/c"}), false)
	for _, b := range sparseSeeds(f) {
		f.Add(b, false)
	}
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
		_, err := Extract(t.Context(), bytes.NewReader(fixChecksums(stream)), target, Options{Force: true, Limits: Limits{Bytes: 1 << 20, Entries: 100}})
		if err != nil {
			if kind := fault.KindOf(err); kind != fault.Invalid && kind != fault.Exhausted {
				t.Errorf("got error %v of kind %q", err, kind)
			}
			if b, err := os.ReadFile(target); old && string(b) != "old" || !old && exists(target) {
				t.Fatalf("content of the target: got %q, %v, want it unchanged", b, err)
			}
		} else if !exists(target) {
			t.Error("the target does not exist")
		}
		check(t, tree.Remove(t.Context(), target))
		only(t, above, "precious")
		only(t, top, "above", "precious")
		for _, folder := range []string{top, above} {
			if b, err := os.ReadFile(filepath.Join(folder, "precious")); string(b) != "precious" {
				t.Fatalf("file beside the target: got %q, %v, want it unchanged", b, err)
			}
		}
	})
}
