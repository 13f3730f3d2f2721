package view

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestReadingAhead(t *testing.T) {
	random := testenv.Rand(t, 1)
	whole := make([]byte, 100_000)
	for i := range whole {
		whole[i] = byte(random.Uint32())
	}
	a := &readAhead{archive: bytes.NewReader(whole)}
	for range 3000 {
		offset := random.IntN(len(whole) + 100)
		b := make([]byte, random.IntN(1000)*random.IntN(30))
		n, err := a.ReadAt(b, int64(offset))
		rest := whole[min(offset, len(whole)):]
		if n != min(len(b), len(rest)) || !bytes.Equal(b[:n], rest[:n]) || (err == io.EOF) != (n < len(b)) && err != nil {
			t.Fatalf("%d bytes from %d on: %d, %v", len(b), offset, n, err)
		}
		if n < len(b) && err == nil {
			t.Fatalf("%d bytes from %d on are only %d", len(b), offset, n)
		}
	}
	broken := errors.New("the disk is broken")
	failing := &readAhead{archive: readerAt{iotest.ErrReader(broken)}}
	if _, err := failing.ReadAt(make([]byte, 10), 0); !errors.Is(err, broken) {
		t.Error(err)
	}
}

type readerAt struct{ io.Reader }

func (r readerAt) ReadAt(b []byte, _ int64) (int, error) { return r.Read(b) }
