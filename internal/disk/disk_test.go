package disk

import (
	"bytes"
	"math/rand"
	"os"
	"path/filepath"
	"testing"
)

// sparse writes a file of 8 MiB that contains data in a few places and holes elsewhere.
func sparse(t *testing.T, seed int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sparse")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := rand.New(rand.NewSource(seed))
	const size = 8 << 20
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		b := make([]byte, 1+r.Intn(100_000))
		r.Read(b)
		if _, err := f.WriteAt(b, r.Int63n(size-int64(len(b)))); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestCopyKeepsContentAndHoles(t *testing.T) {
	for seed := range int64(5) {
		path := sparse(t, seed)
		src, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer src.Close()
		dst, err := os.Create(path + ".copy")
		if err != nil {
			t.Fatal(err)
		}
		defer dst.Close()
		if err := Copy(dst, src); err != nil {
			t.Fatal(err)
		}
		want, _ := os.ReadFile(path)
		got, _ := os.ReadFile(path + ".copy")
		if !bytes.Equal(got, want) {
			t.Fatalf("seed %d: the copy differs", seed)
		}
		a, _ := Allocated(path)
		b, _ := Allocated(path + ".copy")
		if b > a+1<<20 {
			t.Errorf("seed %d: the copy takes %d bytes, the source %d", seed, b, a)
		}
		h1, err1 := Hash(path, nil)
		h2, err2 := Hash(path+".copy", nil)
		if err1 != nil || err2 != nil || h1 != h2 {
			t.Errorf("seed %d: hashes %s, %s (%v, %v)", seed, h1, h2, err1, err2)
		}
	}
}

func TestHashDependsOnContentAlone(t *testing.T) {
	path := sparse(t, 1)
	want, err := Hash(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	content, _ := os.ReadFile(path)
	dense := path + ".dense"
	if err := os.WriteFile(dense, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _ := Hash(dense, nil); got != want {
		t.Error("holes written out change the hash")
	}
	for _, at := range []int{0, len(content) / 2, len(content) - 1} {
		content[at] ^= 1
		os.WriteFile(dense, content, 0o600)
		if got, _ := Hash(dense, nil); got == want {
			t.Errorf("a bit at %d does not change the hash", at)
		}
		content[at] ^= 1
	}
	os.WriteFile(dense, content[:len(content)-1], 0o600)
	if got, _ := Hash(dense, nil); got == want {
		t.Error("a lost byte does not change the hash")
	}
}

func TestStampSeesChanges(t *testing.T) {
	path := sparse(t, 2)
	before, err := StampOf(path)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := StampOf(path); again != before {
		t.Error("the stamp of an unchanged file changed")
	}
	info, _ := os.Stat(path)
	f, _ := os.OpenFile(path, os.O_RDWR, 0)
	f.WriteAt([]byte{1}, 4096)
	f.Close()
	os.Chtimes(path, info.ModTime(), info.ModTime())
	if after, _ := StampOf(path); after == before {
		t.Error("a write with an older mtime did not change the stamp")
	}
	older := before
	if older.CTime--; !older.SameContent(before) || older == before {
		t.Error("a stamp with another ctime: want the same content and another stamp")
	}
	for _, differ := range []func(*Stamp){func(s *Stamp) { s.Size++ }, func(s *Stamp) { s.Inode++ }, func(s *Stamp) { s.MTime++ }} {
		other := before
		if differ(&other); before.SameContent(other) {
			t.Errorf("%+v has the content of %+v", other, before)
		}
	}
	if _, err := StampOf(t.TempDir()); err == nil {
		t.Error("a folder has no stamp")
	}
}

func TestUnnamed(t *testing.T) {
	dir := t.TempDir()
	f, err := Unnamed(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
