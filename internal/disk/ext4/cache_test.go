package ext4

import (
	"bytes"
	"errors"
	"testing"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestCacheReturnsContent(t *testing.T) {
	random := testenv.Rand(t, 1)
	image := make([]byte, 3*maxPieces*pieceSize+777)
	for i := range image {
		image[i] = byte(random.Uint32())
	}
	var c cache
	reads := 0
	fill := func(p []byte, offset int64) error {
		reads++
		copy(p, image[offset:])
		return nil
	}
	end := int64(len(image))
	for i := range 20_000 {
		at := random.Int64N(end)
		if i%2 == 0 {
			at = at % (1 << 20)
		}
		p := make([]byte, min(1+random.Int64N(3*pieceSize), end-at))
		if err := c.read(p, at, end, fill); err != nil || !bytes.Equal(p, image[at:][:len(p)]) {
			t.Fatalf("%d bytes at %d: %v", len(p), at, err)
		}
	}
	if len(c.pieces) != maxPieces {
		t.Errorf("%d pieces", len(c.pieces))
	}
	before := reads
	p := make([]byte, 100)
	for range 100 {
		if err := c.read(p, 5000, end, fill); err != nil {
			t.Fatal(err)
		}
	}
	if reads > before+2 {
		t.Errorf("read %d times", reads-before)
	}
	broken := errors.New("broken")
	if err := c.read(p, 1<<30, 1<<31, func([]byte, int64) error { return broken }); err != broken {
		t.Error(err)
	}
	if err := c.read(p, 1<<30, 1<<31, func([]byte, int64) error { return nil }); err != nil {
		t.Error("got no error for an unreadable range")
	}
}
