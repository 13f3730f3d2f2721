// Package terminal renders what a program wrote to a terminal as the text that a person would see there.
//
// It knows what programs in use write (ECMA-48 and xterm's control sequences, https://invisible-island.net/xterm/ctlseqs/ctlseqs.html): carriage returns,
// backspaces, cursor moves, erasing, inserting, scrolling, the alternate screen, wide and combining characters. Colours, titles and what asks for an answer are
// left out. Any bytes may be written: what can't be understood is skipped, and a screen takes no more memory than its size and its limit say.
package terminal

import "strings"

// MaxSide is how many columns or rows a terminal has at most.
const MaxSide = 1000

// Screen is a terminal that is written to. Its text is that of all lines since its beginning, also of those that were scrolled out of sight. A line that went on in
// the next row because it was too long is one line.
type Screen struct {
	cols, rows int
	limit      int

	main, alternate page
	now             *page // main or alternate

	parser
}

// New makes an empty screen of so many characters, which are brought between 1 and MaxSide. Of what was scrolled out of sight it keeps the last limit bytes.
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

// Write takes what a program wrote, in pieces cut anywhere. It never fails.
func (s *Screen) Write(b []byte) (int, error) {
	for _, c := range b {
		s.take(c)
	}
	return len(b), nil
}

// Alternate tells whether the alternate screen is shown, as full-screen programs do.
func (s *Screen) Alternate() bool { return s.now == &s.alternate }

// String is what can be seen: the text, and where the alternate screen is shown, that below it.
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

// Rows are what the screen shows, row by row, without blanks at their ends. Rows that were not written to are left out at the end.
func (s *Screen) Rows() []string { return s.now.texts() }

// Cursor is where the next character goes, from 0 on.
func (s *Screen) Cursor() (row, col int) { return s.now.row, s.now.column() }

// Plain renders one piece of what a program wrote to a terminal of so many characters, in some limit bytes at most: where there is more, the first lines are left
// out. before is what it wrote since it last showed the alternate screen, where it showed that when the piece begins: then all of that screen is rendered.
func Plain(cols, rows, limit int, before, piece []byte) string {
	s := New(cols, rows, limit)
	if len(before) > 0 {
		s.Write(before)
		s.main = s.newPage(limit)
	}
	s.Write(piece)
	return s.String()
}
