package ext4image

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
	"time"

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/disk/ext4"
	"github.com/pyro-mcp/pyro/internal/fault"
)

func openImage(t *testing.T, path string) *ext4.FS {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	fsys, err := ext4.OpenFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return fsys
}

func volumeOf(t *testing.T, entries ...tar.Header) (string, *ext4.FS) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "volume")
	if err := BuildVolume(t.Context(), bytes.NewReader(archiveOf(t, entries...)), path, Limits{}, VirtualSize); err != nil {
		t.Fatal(err)
	}
	if err := Check(t.Context(), path); fault.KindOf(err) == fault.Corrupt {
		t.Error(err)
	}
	return path, openImage(t, path)
}

func TestVolumeLayout(t *testing.T) {
	when := time.Unix(1_234_567_890, 123_456_789)
	_, fsys := volumeOf(t,
		tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o1770, ModTime: when, Format: tar.FormatPAX},
		tar.Header{Typeflag: tar.TypeDir, Name: "./sub", Mode: 0o700, ModTime: when, Format: tar.FormatPAX},
		tar.Header{Typeflag: tar.TypeReg, Name: "sub/file", Size: 10_000, Mode: 0o4711, ModTime: when, Format: tar.FormatPAX, PAXRecords: map[string]string{"SCHILY.xattr.user.a": "b"}},
		tar.Header{Typeflag: tar.TypeLink, Name: "again", Linkname: "./sub/file"}, tar.Header{Typeflag: tar.TypeSymlink, Name: "up", Linkname: "../pending"},
		tar.Header{Typeflag: tar.TypeDir, Name: "pending"}, reg("日本-ü", 1), reg("lost+found", 5),
	)
	for name, want := range map[string]fs.FileMode{
		".": fs.ModeDir | 0o755, "files": fs.ModeDir | fs.ModeSticky | 0o770, "pending": fs.ModeDir | 0o700, "files/sub": fs.ModeDir | 0o700, "files/sub/file": fs.ModeSetuid | 0o711,
		"files/again": fs.ModeSetuid | 0o711, "files/up": fs.ModeSymlink | 0o777, "files/pending": fs.ModeDir, "files/日本-ü": 0o644, "files/lost+found": 0o644,
	} {
		info, err := fsys.Lstat(name)
		if err != nil {
			t.Error(err)
			continue
		}
		st := info.Sys().(*syscall.Stat_t)
		if info.Mode() != want || time.Unix(st.Atim.Unix()) != made || time.Unix(st.Ctim.Unix()) != made {
			t.Errorf("%s: %v %+v", name, info.Mode(), st)
		}
		if strings.HasPrefix(name, "files/sub") && !info.ModTime().Equal(when) {
			t.Errorf("%s: %v", name, info.ModTime())
		}
	}
	entries, err := fsys.ReadDir(".")
	if err != nil || len(entries) != 3 || entries[0].Name() != VolumeFiles || entries[1].Name() != "lost+found" || entries[2].Name() != VolumePending {
		t.Errorf("%v, %v", entries, err)
	}
	if attributes, err := fsys.Xattrs("files/again"); attributes["user.a"] != "b" || err != nil {
		t.Errorf("%q, %v", attributes, err)
	}
	if got, err := fs.ReadFile(fsys, "files/sub/file"); len(got) != 10_000 || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestBlankVolume(t *testing.T) {
	path, fsys := volumeOf(t)
	entries, err := fsys.ReadDir(VolumeFiles)
	if err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != VirtualSize {
		t.Errorf("%v, %v", info, err)
	}
	if n, _ := disk.Allocated(path); n > 1<<20 {
		t.Errorf("it takes %d KiB", n>>10)
	}
	other, _ := volumeOf(t)
	first, err1 := disk.Hash(path, nil)
	second, err2 := disk.Hash(other, nil)
	if first != second || errors.Join(err1, err2) != nil {
		t.Error("two blank volumes differ")
	}
}

func TestVolumeOfHostileArchive(t *testing.T) {
	for name, entry := range map[string]tar.Header{
		"climbs": reg("../pending/x", 1), "climbs later": reg("a/../../pending/x", 1), "links out": {Typeflag: tar.TypeLink, Name: "x", Linkname: "../pending"},
		"a file as the root": reg(".", 1), "links to the root": {Typeflag: tar.TypeLink, Name: "x", Linkname: "."},
	} {
		err := BuildVolume(t.Context(), bytes.NewReader(archiveOf(t, entry)), filepath.Join(t.TempDir(), "volume"), Limits{}, VirtualSize)
		if fault.KindOf(err) != fault.Corrupt {
			t.Errorf("%s: %v", name, err)
		}
	}
	taken := filepath.Join(t.TempDir(), "taken")
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := BuildVolume(t.Context(), bytes.NewReader(archiveOf(t)), taken, Limits{}, VirtualSize); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
}

func TestImagesHaveAJournal(t *testing.T) {
	dir := t.TempDir()
	image, volume, before := filepath.Join(dir, "image"), filepath.Join(dir, "volume"), filepath.Join(dir, "before")
	if err := errors.Join(Build(t.Context(), bytes.NewReader(archiveOf(t)), image, Limits{}), BuildVolume(t.Context(), bytes.NewReader(archiveOf(t)), volume, Limits{}, VirtualSize)); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(image)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	head := make([]byte, 4096)
	if _, err := file.ReadAt(head, 0); err != nil {
		t.Fatal(err)
	}
	head[1024+0x5c] &^= 4
	if err := os.WriteFile(before, head, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{image: true, volume: true, before: false} {
		if got, err := HasJournal(path); got != want || err != nil {
			t.Errorf("%s: %v, %v", path, got, err)
		}
	}
	if _, err := HasJournal(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	short := filepath.Join(dir, "short")
	if err := os.WriteFile(short, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := HasJournal(short); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if got := debugfs(t, image, "stat <8>"); !strings.Contains(got, "Size: 33554432") {
		t.Error(got)
	}
}
