package program

import (
	"bytes"
	"fmt"
)

// HeadTail is a writer that keeps the first and the last bytes of an output, at most
// [HeadTailBytes] together. The zero value is ready to use. Checkpoints contain its JSON form.
type HeadTail struct {
	Head  []byte `json:"head,omitempty"`
	Tail  []byte `json:"tail,omitempty"` // can be longer than the part that Bytes returns.
	Total int64  `json:"total"`          // number of written bytes.
}

// HeadTailBytes is the number of bytes that a HeadTail keeps.
const HeadTailBytes = 64 << 10

const half = HeadTailBytes / 2

// Write keeps the bytes of b that belong to the head or the tail. It never fails.
func (h *HeadTail) Write(b []byte) (int, error) {
	n := len(b)
	h.Total += int64(n)
	if room := half - len(h.Head); room > 0 {
		taken := min(room, len(b))
		h.Head = append(h.Head, b[:taken]...)
		b = b[taken:]
	}
	if len(b) >= half {
		h.Tail = append(h.Tail[:0], b[len(b)-half:]...)
		return n, nil
	}
	if h.Tail = append(h.Tail, b...); len(h.Tail) > HeadTailBytes {
		h.Tail = append(h.Tail[:0], h.Tail[len(h.Tail)-half:]...)
	}
	return n, nil
}

// Bytes returns the head and the tail. If bytes are missing between them, a line says how many.
func (h *HeadTail) Bytes() []byte {
	tail := h.Tail[max(0, len(h.Tail)-half):]
	missing := h.Total - int64(len(h.Head)) - int64(len(tail))
	if missing == 0 {
		return append(h.Head, tail...)
	}
	return fmt.Appendf(h.Head, "\n[… %d bytes are not kept …]\n%s", missing, tail)
}

// ReadKept returns at most the given number of characters of an output, starting at cursor. kept is
// the result of [HeadTail.Bytes] for that output, and total is [HeadTail.Total]. If kept is
// something else, ReadKept returns no output.
func ReadKept(kept []byte, total, cursor int64, chars int) Piece {
	from, data := total, []byte(nil)
	switch tail := total - half; {
	case total <= HeadTailBytes && int64(len(kept)) == total:
		from = min(max(cursor, 0), total)
		data = kept[from:]
	case total <= HeadTailBytes || len(kept) <= HeadTailBytes: // the output is no longer stored
	case cursor < half:
		from = max(cursor, 0)
		p := pieceOf(kept[from:half], cursor, from, half, chars, true)
		p.More, p.Ended = true, false
		return p
	default:
		from = max(min(cursor, total), tail)
		data = kept[len(kept)-int(total-from):]
	}
	return pieceOf(data, cursor, from, total, chars, true)
}

// Clone returns a copy that shares no memory with h.
func (h *HeadTail) Clone() HeadTail {
	return HeadTail{bytes.Clone(h.Head), bytes.Clone(h.Tail), h.Total}
}
