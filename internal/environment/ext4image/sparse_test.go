package ext4image

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/pyro-mcp/pyro/internal/disk"
)

// TestSparseFileIsLikeAFile writes, seeks and reads at random and compares with a slice in memory.
func TestSparseFileIsLikeAFile(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	sparse, random := &sparseFile{File: file}, rand.New(rand.NewPCG(1, 2))
	var want []byte
	for range 500 {
		at, n := random.IntN(200_000), random.IntN(20_000)
		part := make([]byte, n)
		if random.IntN(2) == 0 {
			for i := range part {
				part[i] = byte(random.IntN(3)) * byte(random.IntN(2))
			}
		}
		if _, err := sparse.Seek(int64(at), io.SeekStart); err != nil {
			t.Fatal(err)
		}
		if m, err := sparse.Write(part); m != n || err != nil {
			t.Fatal(m, err)
		}
		if need := at + n - len(want); need > 0 && n > 0 {
			want = append(want, make([]byte, need)...)
		}
		copy(want[min(at, len(want)):], part)
	}
	if err := sparse.finish(); err != nil {
		t.Fatal(err)
	}
	sparse.Seek(0, io.SeekStart)
	if got, err := io.ReadAll(sparse); err != nil || !bytes.Equal(got, want) {
		t.Errorf("what was read is not what was written: %d and %d bytes, %v", len(got), len(want), err)
	}
	if got, err := os.ReadFile(file.Name()); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the file is not what was written: %v", err)
	}
}

func TestZerosTakeNoSpace(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	sparse := &sparseFile{File: file}
	if _, err := io.CopyN(sparse, zeros{}, 64<<20); err != nil {
		t.Fatal(err)
	}
	if err := sparse.finish(); err != nil {
		t.Fatal(err)
	}
	if n, _ := disk.Allocated(file.Name()); n > 1<<20 {
		t.Errorf("%d bytes are allocated", n)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
