package program

import (
	"bytes"
	"testing"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestRing compares a ring with a log that keeps everything. It writes pieces that are smaller and
// larger than the limit.
func TestRing(t *testing.T) {
	random := testenv.Rand(t, 5)
	for _, size := range [][2]int{{1, 1}, {1, 7}, {4, 64}, {16, 16}, {64, 10}, {3, 100}} {
		r, all := newRing(size[0], size[1]), []byte{}
		for range 500 {
			piece := make([]byte, random.IntN(2*size[1]+2))
			for i := range piece {
				piece[i] = byte(random.Uint32())
			}
			r.Write(piece)
			all = append(all, piece...)
			start, end := r.Start(), r.End()
			if end != uint64(len(all)) || start > end || end-start > uint64(size[1]) || len(all) >= size[1] && end-start != uint64(size[1]) {
				t.Fatalf("%v: %d to %d are kept of %d", size, start, end, len(all))
			}
			if !bytes.Equal(r.Bytes(start, end), all[start:]) {
				t.Fatalf("limit %v: the kept bytes are not the last written ones", size)
			}
			from, to := uint64(random.IntN(len(all)+3)), uint64(random.IntN(len(all)+3))
			var want []byte
			if a, b := max(from, start), min(to, end); a < b {
				want = all[a:b]
			}
			if got := r.Bytes(from, to); !bytes.Equal(got, want) {
				t.Fatalf("%v: from %d to %d: %d bytes, want %d", size, from, to, len(got), len(want))
			}
		}
	}
}

// TestAt checks that a ring with a first offset contains no bytes before that offset.
func TestAt(t *testing.T) {
	for _, offset := range []uint64{1, 63, 64, 1000} {
		r := ringAt(16, 64, offset)
		if r.Start() != offset || r.End() != offset || r.Bytes(0, offset+10) != nil {
			t.Fatalf("%d: from %d to %d", offset, r.Start(), r.End())
		}
		all := []byte{}
		for i := range 200 {
			all = append(all, byte(i))
			r.Write(all[i:])
			from := offset + uint64(max(0, len(all)-64))
			if r.Start() != from || !bytes.Equal(r.Bytes(0, 1<<20), all[max(0, len(all)-64):]) {
				t.Fatalf("%d after %d: from %d, %v", offset, i, r.Start(), r.Bytes(0, 1<<20))
			}
		}
	}
}
