// Package terminal renders the output of a program as the text that a terminal would show.
//
// It supports the ECMA-48 and xterm control sequences that programs use
// (https://invisible-island.net/xterm/ctlseqs/ctlseqs.html): carriage returns, backspaces, cursor
// movement, erasing, inserting, scrolling, the alternate screen, wide and combining characters. It
// ignores colours, titles and queries. The input can be any bytes: a Screen skips unknown
// sequences. The size of the screen and the limit on scrolled lines bound the memory use.
package terminal

import "strings"

// MaxSide is the maximum number of columns and of rows.
const MaxSide = 1000

// Screen is a terminal screen. Its text includes lines that scrolled off the screen. A line that
// wrapped into several rows is one line of that text.
type Screen struct {
	cols, rows int
	limit      int

	main, alternate page
	now             *page // main or alternate
	unfinished      int   // bytes of an incomplete sequence or character at the end of the output

	parser
}

// New returns an empty screen. It limits cols and rows to the range 1 to MaxSide. The screen keeps
// the last limit bytes of the lines that scroll off.
func New(cols, rows, limit int) *Screen {
	s := &Screen{cols: min(max(cols, 1), MaxSide), rows: min(max(rows, 1), MaxSide), limit: limit}
	s.reset()
	return s
}

func (s *Screen) reset() {
	s.main, s.alternate = s.newPage(s.limit), s.newPage(0)
	s.now = &s.main
	s.parser = parser{}
}

// Write processes output. The output can be split at any byte. Write never fails.
func (s *Screen) Write(b []byte) (int, error) {
	for _, c := range b {
		s.take(c)
		s.unfinished++
		if s.state == ground && s.chars == 0 {
			s.unfinished = 0
		}
	}
	return len(b), nil
}

// Alternate reports whether the alternate screen is shown. Full-screen programs use that screen.
func (s *Screen) Alternate() bool { return s.now == &s.alternate }

// String returns the text of the main screen. If the alternate screen is shown, its text follows.
func (s *Screen) String() string {
	var b strings.Builder
	s.main.print(&b)
	if s.Alternate() {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		s.alternate.printScreen(&b)
	}
	return b.String()
}

// Rows returns the rows of the screen without trailing spaces, up to the last row that was written
// to.
func (s *Screen) Rows() []string { return s.now.texts() }

// Cursor returns the 0-based position of the next character.
func (s *Screen) Cursor() (row, col int) { return s.now.row, s.now.column() }

// maxUnfinished is the maximum result of Unfinished. A longer control string, such as an image, or
// one that never ends, does not delay the output.
const maxUnfinished = 4 << 10

// Unfinished returns the length in bytes of the incomplete control sequence or character at the end
// of a piece of output. It returns 0 if that is longer than maxUnfinished.
func Unfinished(piece []byte) int {
	s := New(1, 1, 0)
	s.Write(piece[max(len(piece)-maxUnfinished, 0):])
	return s.unfinished
}

// Plain renders a piece of output as text of at most about limit bytes. If there is more text,
// Plain omits the first lines. If the alternate screen was shown at the beginning of the piece,
// before must contain the output since the switch to it. The result then contains the whole
// alternate screen.
func Plain(cols, rows, limit int, before, piece []byte) string {
	s := New(cols, rows, limit)
	if len(before) > 0 {
		s.Write(before)
		s.main = s.newPage(limit)
	}
	s.Write(piece)
	return s.String()
}
