package terminal

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/runes"
)

// page is the text of the main or the alternate screen.
type page struct {
	cols, rows int
	lines      []line // rows of the screen, up to the last row that was written to.
	above      []byte // lines that scrolled off the screen, at least their last limit bytes.
	limit      int
	lost       bool // some lines were removed from above.
	row, col   int  // cursor, 0-based. If the next character wraps, col equals cols.
	first      int  // first row of the scroll region.
	last       int  // last row of the scroll region.
	saved      position
	noWrap     bool
}

type position struct{ row, col int }

// line is the text of a row, from its first cell to the last cell that was written to.
type line struct {
	cells []cell
	joins bool // the line wrapped: it continues in the next row
}

// cell contains a character. A wide character takes two cells; the second cell is empty.
type cell struct {
	char  rune // 0: second half of a wide character
	marks string
}

const maxMarks = 16 // maximum size of the combining characters in a cell, in bytes

func (s *Screen) newPage(limit int) page {
	return page{cols: s.cols, rows: s.rows, last: s.rows - 1, limit: limit}
}

// at returns a row. It first adds the row if it does not exist.
func (p *page) at(row int) *line {
	for len(p.lines) <= row {
		p.lines = append(p.lines, line{})
	}
	return &p.lines[row]
}

// put writes a character at the cursor.
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

// mark adds a combining character to the previous character.
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

// reach extends a line to at least n cells.
func (l *line) reach(n int) {
	for len(l.cells) < n {
		l.cells = append(l.cells, cell{char: ' '})
	}
}

// split replaces a wide character with spaces if the character spans the given cell boundary.
func (l *line) split(at int) {
	if at > 0 && at < len(l.cells) && l.cells[at].char == 0 {
		l.cells[at-1], l.cells[at] = cell{char: ' '}, cell{char: ' '}
	}
}

// down moves the cursor down. In the last row of the scroll region it scrolls the region instead.
func (p *page) down() {
	switch {
	case p.row == p.last:
		p.scroll(1)
	case p.row < p.rows-1:
		p.row++
	}
}

// up moves the cursor up. In the first row of the scroll region it scrolls the region instead.
func (p *page) up() {
	switch {
	case p.row == p.first:
		p.scrollDown(1)
	case p.row > 0:
		p.row--
	}
}

// scroll scrolls the region up by n rows. If the region begins in the first row of the screen,
// scroll keeps the rows that leave the screen in p.above.
func (p *page) scroll(n int) {
	if p.first == 0 {
		p.at(p.last)
		for _, l := range p.lines[:min(n, p.last+1)] {
			p.keep(l)
		}
	}
	p.remove(p.first, n)
}

// keep adds a line to p.above. It removes the oldest lines if p.above becomes too long.
func (p *page) keep(l line) {
	if p.limit == 0 {
		return
	}
	p.above = l.appendTo(p.above)
	if len(p.above) > 2*p.limit {
		p.above, p.lost = append([]byte(nil), lastLines(p.above, p.limit)...), true
	}
}

// lastLines returns the complete lines in the last n bytes of a text. If a single line is longer,
// it returns the end of this line.
func lastLines(text []byte, n int) []byte {
	if len(text) <= n {
		return text
	}
	text = text[len(text)-n:]
	if at := bytes.IndexByte(text, '\n'); at >= 0 {
		return text[at+1:]
	}
	return text[runes.Rest(text):]
}

// scrollDown scrolls the region down by n rows.
func (p *page) scrollDown(n int) { p.insert(p.first, n) }

// insert inserts n empty lines before a row, and remove removes n lines at a row. Both change only
// the scroll region.
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
	if end == p.rows {
		p.lines = p.lines[:end-n] // the program has not written to the new rows
	}
}

// move moves the cursor. It limits the position to the screen.
func (p *page) move(row, col int) {
	p.row, p.col = min(max(row, 0), p.rows-1), min(max(col, 0), p.cols-1)
}

// column returns the visible column of the cursor.
func (p *page) column() int { return min(p.col, p.cols-1) }

// erase replaces the columns [from, to) of the cursor's line with spaces. If they include the end
// of the line, erase shortens the line instead.
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

// eraseRows empties the rows [from, to).
func (p *page) eraseRows(from, to int) {
	for i := from; i < min(to, len(p.lines)); i++ {
		p.lines[i] = line{}
	}
}

// insertCells inserts n spaces at the cursor, and deleteCells deletes n cells there.
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

// appendTo appends a line's text, and a line break unless the line wrapped.
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

// print writes p.above and all text up to the cursor, or up to the last non-empty line if that line
// is later.
func (p *page) print(b *strings.Builder) {
	text := p.above
	lost := p.lost
	end := len(p.lines)
	for end > 0 && len(p.lines[end-1].cells) == 0 {
		end-- // p.at added the line, but the program never wrote to it
	}
	for row := range max(end, p.row+1) {
		if row < len(p.lines) {
			text = p.lines[row].appendTo(text)
		} else {
			text = append(text, '\n')
		}
	}
	text = bytes.TrimSuffix(text, []byte("\n")) // the last line is incomplete
	if p.limit > 0 && len(text) > p.limit {
		text, lost = lastLines(text, p.limit), true
	}
	if lost {
		b.WriteString("[… earlier lines are left out …]\n")
	}
	b.Write(text)
}

// printScreen writes the visible text without trailing spaces and empty lines.
func (p *page) printScreen(b *strings.Builder) {
	b.WriteString(strings.TrimRight(strings.Join(p.texts(), "\n"), "\n"))
}

// texts returns the rows without trailing spaces.
func (p *page) texts() (rows []string) {
	for _, l := range p.lines {
		l.joins = true
		rows = append(rows, strings.TrimRight(string(l.appendTo(nil)), " "))
	}
	return rows
}
