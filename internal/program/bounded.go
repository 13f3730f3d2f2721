package program

import (
	"bytes"
	"errors"

	"github.com/pyro-mcp/pyro/internal/runes"
)

// ErrFull is the error from writes to a [Bounded] whose budget is used up.
var ErrFull = errors.New("the output exceeds the limit")

// Budget is a number of bytes that several Bounded can share.
type Budget struct{ left int }

// NewBudget returns a budget of size bytes.
func NewBudget(size int) *Budget { return &Budget{size} }

// Bounded is a writer that keeps its input, limited by a budget. It has no ReadFrom or other method
// that could bypass the limit. It never copies its content while it grows.
type Bounded struct {
	Budget *Budget

	// Discard makes Write succeed even if the budget is used up. Write then keeps only the bytes
	// that fit, and sets Truncated.
	Discard   bool
	Truncated bool

	pieces [][]byte
}

// Sizes of pieces, in bytes. Each piece is twice as large as the previous one, up to maxPiece.
const (
	firstPiece = 1 << 10
	maxPiece   = 1 << 20
)

// Write keeps b. If b does not fit into the budget, Write fails with ErrFull and keeps no part of
// b.
func (w *Bounded) Write(b []byte) (int, error) {
	n := len(b)
	if n > w.Budget.left {
		if !w.Discard {
			w.Budget.left = 0
			return 0, ErrFull
		}
		b, w.Truncated = b[:w.Budget.left], true
	}
	w.Budget.left -= len(b)
	for len(b) > 0 {
		b = b[w.fill(b):]
	}
	return n, nil
}

// fill copies the start of b into the last piece, or into a new piece if the last one is full. It
// returns the number of copied bytes.
func (w *Bounded) fill(b []byte) int {
	last := len(w.pieces) - 1
	if last < 0 || len(w.pieces[last]) == cap(w.pieces[last]) {
		size := firstPiece
		if last >= 0 {
			size = min(2*cap(w.pieces[last]), maxPiece)
		}
		w.pieces = append(w.pieces, make([]byte, 0, size))
		last++
	}
	piece := w.pieces[last]
	n := min(len(b), cap(piece)-len(piece))
	w.pieces[last] = append(piece, b[:n]...)
	return n
}

// Text returns the kept bytes, without an incomplete character at the end.
func (w *Bounded) Text() []byte { return runes.Head(w.Bytes()) }

// Bytes returns the kept bytes.
func (w *Bounded) Bytes() []byte {
	if len(w.pieces) == 1 {
		return w.pieces[0]
	}
	return bytes.Join(w.pieces, nil)
}
