package record

import (
	"bytes"
	"context"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
)

func fileFor(t *testing.T) *os.File {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestCheckNamesTheBlock damages a file at several positions and checks that the error names the
// block.
func TestCheckNamesTheBlock(t *testing.T) {
	file := fileFor(t)
	content := make([]byte, 3*BlockSize+777)
	rand.New(rand.NewSource(1)).Read(content)
	if _, err := file.Write(content); err != nil {
		t.Fatal(err)
	}
	sums, err := SumsOf(file)
	if err != nil {
		t.Fatal(err)
	}
	for at, block := range map[int64]string{0: "block 0,", BlockSize - 1: "block 0,", BlockSize: "block 1,", 3 * BlockSize: "block 3,", 3*BlockSize + 776: "block 3,"} {
		file.WriteAt([]byte{content[at] ^ 4}, at)
		if err := sums.Check(context.Background(), "memory", file); fault.KindOf(err) != fault.Corrupt || !strings.Contains(err.Error(), block) {
			t.Errorf("at %d: %v", at, err)
		}
		file.WriteAt(content[at:at+1], at)
	}
	if err := sums.Check(context.Background(), "memory", file); err != nil {
		t.Error(err)
	}
	for _, size := range []int64{int64(len(content)) - 1, int64(len(content)) + 1, 0} {
		file.Truncate(size)
		if err := sums.Check(context.Background(), "memory", file); fault.KindOf(err) != fault.Corrupt {
			t.Errorf("of %d bytes: %v", size, err)
		}
	}
}

// TestStore stores streams of different lengths, then compares the contents and the checksums. A
// stream that is longer than the limit must fail.
func TestStore(t *testing.T) {
	content := make([]byte, 20*BlockSize+5)
	rand.New(rand.NewSource(1)).Read(content)
	for _, size := range []int{0, 1, BlockSize - 1, BlockSize, BlockSize + 1, len(content)} {
		file := fileFor(t)
		sums, err := Store(file, bytes.NewReader(content[:size]), int64(size))
		if err != nil || sums.Size != int64(size) {
			t.Fatalf("%d bytes: %v, %v", size, sums.Size, err)
		}
		if err := sums.Check(context.Background(), "memory", file); err != nil {
			t.Error(err)
		}
		if b, err := os.ReadFile(file.Name()); err != nil || !bytes.Equal(b, content[:size]) {
			t.Errorf("%d bytes: the file differs from the content, %v", size, err)
		}
		if size > 0 {
			if _, err := Store(fileFor(t), bytes.NewReader(content[:size]), int64(size)-1); fault.KindOf(err) != fault.Exhausted {
				t.Errorf("%d bytes, more than the limit: got %v", size, err)
			}
		}
	}
}

// TestRecord damages each byte of a record and checks that Read fails. A record of another form
// must give another kind of error.
func TestRecord(t *testing.T) {
	type pages struct{ Memory Sums }
	dir, form := t.TempDir(), "test-1"
	var got pages
	if err := Read(dir, form, &got); fault.KindOf(err) != fault.Corrupt {
		t.Errorf("missing record: got %v", err)
	}
	want := pages{Sums{5, []uint32{7}}}
	if err := Write(dir, form, want); err != nil {
		t.Fatal(err)
	}
	if err := Read(dir, form, &got); err != nil || got.Memory.Size != 5 || got.Memory.CRC32C[0] != 7 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := Read(dir, "test-2", &got); fault.KindOf(err) != fault.Precondition {
		t.Errorf("record of another format: got %v", err)
	}
	path := filepath.Join(dir, Name)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := range whole {
		changed := bytes.Clone(whole)
		changed[at] ^= 1
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Read(dir, form, &got); fault.KindOf(err) != fault.Corrupt {
			t.Errorf("changed at %d, %q: %v", at, changed, err)
		}
	}
	if err := Write(dir, form, want); err == nil {
		t.Error("a record was overwritten")
	}
}
