package ext4

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"testing"
)

// explore walks a file system and reads a part of every file. It fails if the walk does not end, if
// a list is not sorted, or if errors and types contradict each other.
func explore(t testing.TB, fsys *FS) {
	t.Helper()
	count := 0
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		var in *fs.PathError
		if err != nil {
			if !errors.As(err, &in) {
				t.Errorf("%q: an error without a path: %v", name, err)
			}
			return nil
		}
		if count++; count > 10_000 {
			return errors.New("there is no end")
		}
		info, err := entry.Info()
		if err != nil {
			if name != "." && entry.Type() != fs.ModeIrregular || !errors.As(err, &in) {
				t.Errorf("%q: is %v and %v", name, entry, err)
			}
			return nil
		}
		if again, err := fsys.Lstat(name); err != nil || fs.FormatFileInfo(again) != fs.FormatFileInfo(info) || info.Mode().Type() != entry.Type() {
			t.Errorf("%q: is %v and %v, %v", name, info, again, err)
		}
		if info.Name() != path.Base(name) || info.Size() < 0 {
			t.Errorf("%q: %v", name, info)
		}
		info.Sys()
		if _, err := fsys.Xattrs(name); err != nil && !errors.As(err, &in) {
			t.Errorf("%q: %v", name, err)
		}
		sample(t, fsys, name, info)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// sample reads one piece at the start of a file and another at its end.
func sample(t testing.TB, fsys *FS, name string, info fs.FileInfo) {
	t.Helper()
	if target, err := fsys.ReadLink(name); (err == nil) != (target != "") || err == nil && info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("%q: leads to %q, %v", name, target, err)
	}
	if info.IsDir() {
		entries, _ := fsys.ReadDir(name)
		for i := range entries {
			if i > 0 && entries[i-1].Name() >= entries[i].Name() {
				t.Errorf("%q: not sorted", name)
			}
		}
		return
	}
	opened, err := fsys.Open(name)
	if err != nil {
		return
	}
	for at, steps := int64(0), 0; ; steps++ {
		start, end, err := opened.(interface {
			NextData(int64) (int64, int64, error)
		}).NextData(at)
		if err != nil || start == end {
			break
		}
		if start > end || end <= at || end > info.Size() || steps > 100_000 {
			t.Errorf("%q: data from %d to %d behind %d", name, start, end, at)
			break
		}
		at = end
	}
	piece := make([]byte, 32<<10)
	for _, offset := range []int64{0, max(0, info.Size()-int64(len(piece)))} {
		n, err := opened.(io.ReaderAt).ReadAt(piece, offset)
		if want := int(min(info.Size()-offset, int64(len(piece)))); n > want || n < want && (err == nil || err == io.EOF) {
			t.Errorf("%q: %d bytes at %d of %d: %v", name, n, offset, info.Size(), err)
		}
	}
}

// FuzzOpen changes bytes of small images. The input first selects an image. Each change then
// selects a byte and its new value. Only bytes within 32-byte blocks that are not all zero can be
// selected.
func FuzzOpen(f *testing.F) {
	images := [][]byte{smallBytes(f), smallBytes(f, "-O", "^64bit,^metadata_csum", "-I", "128"), smallBytes(f, "-b", "4096", "-O", "^resize_inode")}
	places := make([][]int, len(images))
	for i, raw := range images {
		for at := 0; at < len(raw); at += 32 {
			if bytes.Trim(raw[at:at+32], "\x00") != nil {
				for j := range 32 {
					places[i] = append(places[i], at+j)
				}
			}
		}
	}
	for i := range images {
		f.Add([]byte{byte(i)})
		f.Add([]byte{byte(i), 0x60, 0, 0, 0x40, 0x80, 1, 2, 3})
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) == 0 {
			return
		}
		i := int(input[0]) % len(images)
		raw := slices.Clone(images[i])
		for changes := input[1:]; len(changes) >= 4; changes = changes[4:] {
			which := int(changes[0]) | int(changes[1])<<8 | int(changes[2])<<16
			raw[places[i][which%len(places[i])]] = changes[3]
		}
		if fsys, err := openBytes(raw); err == nil {
			explore(t, fsys)
		}
	})
}
