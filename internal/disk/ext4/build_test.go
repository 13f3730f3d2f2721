package ext4_test

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/disk/ext4"
	"github.com/pyro-mcp/pyro/internal/environment/ext4image"
)

// TestReadsEnvironmentImages reads an environment image that the package ext4image built.
func TestReadsEnvironmentImages(t *testing.T) {
	headers := []tar.Header{
		{Typeflag: tar.TypeDir, Name: "bin", Mode: 0o755},
		{Typeflag: tar.TypeReg, Name: "bin/tool", Size: 100_000, Mode: 0o4755, Uid: 7, Gid: 70_000, ModTime: time.Unix(1_600_000_000, 123_456_789)},
		{Typeflag: tar.TypeReg, Name: "old", Mode: 0o2600, Uid: 4_000_000_000, Gid: 65_536, ModTime: time.Unix(-5, 0)},
		{Typeflag: tar.TypeReg, Name: "late", Size: 1, Mode: 0o1644, ModTime: time.Unix(1<<32+17, 999_999_999)},
		{Typeflag: tar.TypeSymlink, Name: "bin/short", Linkname: "/etc/../../x", Mode: 0o777},
		{Typeflag: tar.TypeSymlink, Name: "bin/long", Linkname: strings.Repeat("x", 200), Mode: 0o777},
		{Typeflag: tar.TypeSymlink, Name: "bin/59", Linkname: strings.Repeat("x", 59), Mode: 0o777},
		{Typeflag: tar.TypeSymlink, Name: "bin/60", Linkname: strings.Repeat("x", 60), Mode: 0o777},
		{Typeflag: tar.TypeDir, Name: "dev", Mode: 0o711},
		{Typeflag: tar.TypeChar, Name: "dev/null", Mode: 0o666, Devmajor: 1, Devminor: 3},
		{Typeflag: tar.TypeBlock, Name: "dev/large", Mode: 0o660, Devmajor: 259, Devminor: 0x12345},
		{Typeflag: tar.TypeFifo, Name: "dev/pipe", Mode: 0o600},
		{Typeflag: tar.TypeReg, Name: "dev/not\xffutf8", Mode: 0o600, Size: 10},
	}
	fsys := built(t, append(headers, tar.Header{Typeflag: tar.TypeLink, Name: "again", Linkname: "bin/tool"}))
	for _, h := range headers {
		info, err := fsys.Lstat(h.Name)
		if err != nil {
			t.Error(err)
			continue
		}
		want := h.FileInfo().Mode()
		if info.Mode() != want || info.Name() != path.Base(h.Name) {
			t.Errorf("%s: is %v, want %v", h.Name, info.Mode(), want)
		}
		st := info.Sys().(*syscall.Stat_t)
		if st.Uid != uint32(h.Uid) || st.Gid != uint32(h.Gid) || st.Rdev != unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor)) {
			t.Errorf("%s: is %+v", h.Name, st)
		}
		if !h.ModTime.IsZero() && (!info.ModTime().Equal(h.ModTime) || time.Unix(st.Mtim.Unix()) != info.ModTime()) {
			t.Errorf("%s: modified %v, want %v", h.Name, info.ModTime(), h.ModTime)
		}
		if h.Linkname != "" {
			if target, err := fsys.ReadLink(h.Name); target != h.Linkname || err != nil {
				t.Errorf("%s: leads to %q, %v", h.Name, target, err)
			}
		} else if h.Typeflag == tar.TypeReg {
			if got, err := fs.ReadFile(fsys, h.Name); err != nil || !bytes.Equal(got, contentOf(h)) {
				t.Errorf("%s: %d bytes, %v", h.Name, len(got), err)
			}
		}
	}
	var stats []*syscall.Stat_t
	for _, name := range []string{"again", "bin/tool"} {
		info, err := fsys.Lstat(name)
		if err != nil {
			t.Fatal(err)
		}
		stats = append(stats, info.Sys().(*syscall.Stat_t))
	}
	if *stats[0] != *stats[1] || stats[0].Nlink != 2 {
		t.Errorf("hard links: %+v, %+v", stats[0], stats[1])
	}
}

func built(t *testing.T, headers []tar.Header) *ext4.FS {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, h := range headers {
		h.Format = tar.FormatPAX
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(contentOf(h)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(t.TempDir(), "image")
	err := ext4image.Build(t.Context(), &archive, image, ext4image.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(image)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		t.Fatal(err)
	}
	fsys, err := ext4.Open(file, size)
	if err != nil {
		t.Fatal(err)
	}
	return fsys
}

func contentOf(h tar.Header) []byte {
	content := make([]byte, h.Size)
	for i := range content {
		content[i] = byte(i*7 + i>>8)
	}
	return content
}
