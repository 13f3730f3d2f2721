package program

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestHeadTail(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, half - 1, half, half + 1, 2*half - 1, 2 * half, 2*half + 1, 3 * half, 5*half + 7, 1 << 20} {
		text := make([]byte, size)
		for i := range text {
			text[i] = byte('a' + i%23)
		}
		for range 20 {
			var e HeadTail
			for rest := text; len(rest) > 0; {
				n := min(len(rest), 1+random.IntN(1<<random.IntN(18)))
				if taken, err := e.Write(rest[:n]); taken != n || err != nil {
					t.Fatalf("%d of %d, %v", taken, n, err)
				}
				rest = rest[n:]
				if cap(e.Tail) > 4*HeadTailBytes {
					t.Fatalf("it holds %d bytes", cap(e.Tail))
				}
			}
			want := string(text)
			if size > HeadTailBytes {
				want = fmt.Sprintf("%s\n[… %d bytes are not kept …]\n%s", text[:half], size-2*half, text[size-half:])
			}
			if got := e.Bytes(); !bytes.Equal(got, []byte(want)) || e.Total != int64(size) {
				t.Fatalf("%d bytes: got other %d bytes: %.80q", size, len(got), strings.TrimPrefix(string(got), string(text[:min(half, size)])))
			}
		}
	}
}

// TestReadKept reads the kept parts of outputs with a cursor.
func TestReadKept(t *testing.T) {
	for _, size := range []int{0, 1, half, 2 * half, 2*half + 1, 2*half + 44, 5 * half} {
		text := make([]byte, size)
		for i := range text {
			text[i] = byte('a' + i%23)
		}
		var e HeadTail
		e.Write(text)
		kept, cursor, dropped := e.Bytes(), int64(0), int64(0)
		for range 1000 {
			p := ReadKept(kept, e.Total, cursor, 1000)
			if !bytes.Equal(p.Data, text[p.From:p.Next]) || p.From-cursor != p.Dropped || p.More != (p.Next < int64(size)) {
				t.Fatalf("%d bytes at %d: %d to %d, %d dropped, more: %t", size, cursor, p.From, p.Next, p.Dropped, p.More)
			}
			cursor, dropped = p.Next, dropped+p.Dropped
			if !p.More {
				break
			}
		}
		if cursor != int64(size) || dropped != int64(max(0, size-2*half)) {
			t.Errorf("%d bytes: ended at %d, %d dropped", size, cursor, dropped)
		}
		if p := ReadKept(kept, e.Total, int64(size)+7, 1000); len(p.Data) > 0 || p.Next != int64(size) {
			t.Errorf("%d bytes: after the end: %+v", size, p)
		}
		if p := ReadKept([]byte("[gone]"), 1<<20, 0, 1000); len(p.Data) > 0 || p.Dropped != 1<<20 || p.Next != 1<<20 || p.More {
			t.Errorf("an output that is no longer stored: %+v", p)
		}
	}
}
