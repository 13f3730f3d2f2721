package terminal

// param returns the n-th parameter of a sequence. If the parameter is 0 or absent, it returns
// missing.
func (s *Screen) param(n, missing int) int {
	if n < s.count && s.params[n] != 0 {
		return s.params[n]
	}
	return missing
}

// perform executes a control sequence, given the final character of the sequence.
func (s *Screen) perform(name rune) {
	if s.private != 0 {
		if s.private == '?' && (name == 'h' || name == 'l') {
			s.modes(name == 'h')
		}
		return
	}
	p, n := s.now, s.param(0, 1)
	switch name {
	case 'A':
		p.move(p.row-n, p.column())
	case 'B', 'e':
		p.move(p.row+n, p.column())
	case 'C', 'a':
		p.move(p.row, p.column()+n)
	case 'D':
		p.move(p.row, p.column()-n)
	case 'E':
		p.move(p.row+n, 0)
	case 'F':
		p.move(p.row-n, 0)
	case 'G', '`':
		p.move(p.row, n-1)
	case 'H', 'f':
		p.move(n-1, s.param(1, 1)-1)
	case 'd':
		p.move(n-1, p.column())
	case 'I':
		p.tab(n)
	case 'Z':
		p.tab(-n)
	case 's':
		p.saved = position{p.row, p.column()}
	case 'u':
		p.move(p.saved.row, p.saved.col)
	case 'r':
		s.region(n-1, s.param(1, s.rows)-1)
	default:
		s.change(name, n)
	}
}

// change executes control sequences that change text.
func (s *Screen) change(name rune, n int) {
	p := s.now
	switch name {
	case 'J':
		s.eraseScreen(s.param(0, 0))
	case 'K':
		switch s.param(0, 0) {
		case 0:
			p.erase(p.column(), p.cols)
		case 1:
			p.erase(0, p.column()+1)
		case 2:
			p.erase(0, p.cols)
		}
	case 'X':
		p.erase(p.column(), min(p.column()+n, p.cols))
	case '@':
		p.insertCells(n)
	case 'P':
		p.deleteCells(n)
	case 'L':
		p.insert(p.row, n)
	case 'M':
		p.remove(p.row, n)
	case 'S':
		p.scroll(min(n, p.rows))
	case 'T':
		p.scrollDown(min(n, p.rows))
	case 'b':
		if s.last != 0 {
			for range min(n, p.cols) {
				p.put(s.last, Width(s.last))
			}
		}
	}
}

// eraseScreen erases a part of the screen. The argument selects the part:
//   - 0: from the cursor to the end
//   - 1: from the start to the cursor
//   - 2: the whole screen
//   - 3: the lines that scrolled off the screen
func (s *Screen) eraseScreen(what int) {
	p := s.now
	switch what {
	case 0:
		p.erase(p.column(), p.cols)
		p.eraseRows(p.row+1, p.rows)
	case 1:
		p.erase(0, p.column()+1)
		p.eraseRows(0, p.row)
	case 2:
		p.eraseRows(0, p.rows)
	case 3:
		p.above, p.lost = nil, false
	}
}

// region sets the scroll region.
func (s *Screen) region(first, last int) {
	first, last = max(first, 0), min(last, s.rows-1)
	if first >= last {
		first, last = 0, s.rows-1
	}
	s.now.first, s.now.last = first, last
	s.now.move(0, 0)
}

// modes sets or resets the modes that the parameters name.
func (s *Screen) modes(on bool) {
	for _, mode := range s.params[:s.count] {
		switch mode {
		case 7:
			s.now.noWrap = !on
		case 47, 1047, 1049:
			s.show(on)
		}
	}
}

// show switches to an empty alternate screen, or back to the main screen.
func (s *Screen) show(alternate bool) {
	if alternate && !s.Alternate() {
		s.alternate = s.newPage(0)
		s.now = &s.alternate
	}
	if !alternate {
		s.now = &s.main
	}
}
