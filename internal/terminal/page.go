package terminal

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// page is a screen's text: the main one, or the alternate.
type page struct {
	cols, rows int
	lines      []line // of the rows, as many as were written to
	above      []byte // what was scrolled out of sight, of which the last limit bytes are kept
	limit      int
	lost       bool // there was more
	row, col   int  // of the cursor, from 0 on; col is cols where the next character goes to the next row
	first      int  // of the rows that scroll
	last       int
	saved      position
	noWrap     bool
}

type position struct{ row, col int }

// line is one row: as many cells as were written to.
type line struct {
	cells []cell
	joins bool // the next line is its end
}

// cell holds one character. That of a wide one is followed by an empty one.
type cell struct {
	char  rune // 0: the second half of a wide character
	marks string
}

const maxMarks = 16 // bytes of combining characters in a cell

func (s *Screen) newPage(limit int) page {
	return page{cols: s.cols, rows: s.rows, last: s.rows - 1, limit: limit}
}

// at gives the line of a row, making those up to it.
func (p *page) at(row int) *line {
	for len(p.lines) <= row {
		p.lines = append(p.lines, line{})
	}
	return &p.lines[row]
}

// put writes a character where the cursor is.
func (p *page) put(r rune, width int) {
	if width == 0 {
		p.mark(r)
		return
	}
	if p.col+width > p.cols {
		if p.noWrap || width > p.cols {
			p.col = max(p.cols-width, 0)
		} else {
			p.at(p.row).joins = true
			p.col = 0
			p.down()
		}
	}
	l := p.at(p.row)
	l.reach(p.col + width)
	l.split(p.col)
	l.split(p.col + width)
	l.cells[p.col] = cell{char: r}
	for i := 1; i < width; i++ {
		l.cells[p.col+i] = cell{}
	}
	p.col += width
}

// mark adds a combining character to what was written last.
func (p *page) mark(r rune) {
	l := p.at(p.row)
	for at := min(p.col, len(l.cells)) - 1; at >= 0; at-- {
		if c := &l.cells[at]; c.char != 0 {
			if len(c.marks) < maxMarks {
				c.marks += string(r)
			}
			return
		}
	}
}

// reach makes a line so many cells long at least.
func (l *line) reach(n int) {
	for len(l.cells) < n {
		l.cells = append(l.cells, cell{char: ' '})
	}
}

// split has no wide character lie over the boundary before a cell.
func (l *line) split(at int) {
	if at > 0 && at < len(l.cells) && l.cells[at].char == 0 {
		l.cells[at-1], l.cells[at] = cell{char: ' '}, cell{char: ' '}
	}
}

// down moves the cursor to the next row, scrolling where it is the last.
func (p *page) down() {
	switch {
	case p.row == p.last:
		p.scroll(1)
	case p.row < p.rows-1:
		p.row++
	}
}

// up moves the cursor to the row before, scrolling where it is the first.
func (p *page) up() {
	switch {
	case p.row == p.first:
		p.scrollDown(1)
	case p.row > 0:
		p.row--
	}
}

// scroll moves the rows that scroll up by n. What leaves the top of the whole screen is kept above it.
func (p *page) scroll(n int) {
	if p.first == 0 && p.last == p.rows-1 {
		p.at(p.rows - 1)
		for _, l := range p.lines[:min(n, p.rows)] {
			p.keep(l)
		}
		p.lines = p.lines[min(n, p.rows):]
		return
	}
	p.remove(p.first, n)
}

// keep keeps a line that can't be seen any more.
func (p *page) keep(l line) {
	if p.limit == 0 {
		return
	}
	p.above = l.appendTo(p.above)
	if len(p.above) > 2*p.limit {
		p.above, p.lost = append([]byte(nil), lastLines(p.above, p.limit)...), true
	}
}

// lastLines gives the lines of a text that are whole in its last n bytes.
func lastLines(text []byte, n int) []byte {
	if len(text) <= n {
		return text
	}
	text = text[len(text)-n:]
	return text[bytes.IndexByte(text, '\n')+1:]
}

func (p *page) scrollDown(n int) { p.insert(p.first, n) }

// insert puts n empty lines before a row, and remove takes n away from there: of those up to the last row that scrolls.
func (p *page) insert(row, n int) {
	if row < p.first || row > p.last {
		return
	}
	p.at(p.last)
	n = min(n, p.last-row+1)
	end := p.last + 1
	copy(p.lines[row+n:end], p.lines[row:end-n])
	clear(p.lines[row : row+n])
}

func (p *page) remove(row, n int) {
	if row < p.first || row > p.last {
		return
	}
	p.at(p.last)
	n = min(n, p.last-row+1)
	end := p.last + 1
	copy(p.lines[row:end-n], p.lines[row+n:end])
	clear(p.lines[end-n : end])
}

// move puts the cursor somewhere on the screen.
func (p *page) move(row, col int) {
	p.row, p.col = min(max(row, 0), p.rows-1), min(max(col, 0), p.cols-1)
}

// column is where the cursor is seen.
func (p *page) column() int { return min(p.col, p.cols-1) }

// erase erases cells of the cursor's line. Up to its end it is made shorter.
func (p *page) erase(from, to int) {
	l := p.at(p.row)
	if from >= len(l.cells) {
		return
	}
	l.split(from)
	if to >= len(l.cells) {
		l.cells = l.cells[:from]
		l.joins = false
		return
	}
	l.split(to)
	for i := from; i < to; i++ {
		l.cells[i] = cell{char: ' '}
	}
}

// eraseRows empties rows from..to.
func (p *page) eraseRows(from, to int) {
	for i := from; i < min(to, len(p.lines)); i++ {
		p.lines[i] = line{}
	}
}

// insertCells makes room for n blanks at the cursor, and deleteCells takes n cells away there.
func (p *page) insertCells(n int) {
	l, at := p.at(p.row), p.column()
	if at >= len(l.cells) {
		return
	}
	l.split(at)
	n = min(n, p.cols-at)
	l.cells = slices.Insert(l.cells, at, slices.Repeat([]cell{{char: ' '}}, n)...)
	if len(l.cells) > p.cols {
		l.split(p.cols)
		l.cells = l.cells[:p.cols]
	}
}

func (p *page) deleteCells(n int) {
	l, at := p.at(p.row), p.column()
	if at >= len(l.cells) {
		return
	}
	to := min(at+n, len(l.cells))
	l.split(at)
	l.split(to)
	l.cells = slices.Delete(l.cells, at, to)
}

// appendTo appends a line's text, with its line break where it has one.
func (l *line) appendTo(text []byte) []byte {
	for _, c := range l.cells {
		if c.char != 0 {
			text = append(utf8.AppendRune(text, c.char), c.marks...)
		}
	}
	if !l.joins {
		text = append(text, '\n')
	}
	return text
}

// print writes all text down to the cursor, or to the last line that is not empty.
func (p *page) print(b *strings.Builder) {
	text := p.above
	lost := p.lost
	end := len(p.lines)
	for end > 0 && len(p.lines[end-1].cells) == 0 {
		end-- // it was only made
	}
	for row := range max(end, p.row+1) {
		if row < len(p.lines) {
			text = p.lines[row].appendTo(text)
		} else {
			text = append(text, '\n')
		}
	}
	text = bytes.TrimSuffix(text, []byte("\n")) // the last line has not ended
	if p.limit > 0 && len(text) > p.limit {
		text, lost = lastLines(text, p.limit), true
	}
	if lost {
		b.WriteString("[… earlier lines are left out …]\n")
	}
	b.Write(text)
}

// printScreen writes what the screen shows. Blanks at the end of lines and below the last one say nothing.
func (p *page) printScreen(b *strings.Builder) {
	b.WriteString(strings.TrimRight(strings.Join(p.texts(), "\n"), "\n"))
}

// texts are the rows that were written to, without blanks at their ends.
func (p *page) texts() (rows []string) {
	for _, l := range p.lines {
		l.joins = true
		rows = append(rows, strings.TrimRight(string(l.appendTo(nil)), " "))
	}
	return rows
}
