package terminal

import (
	"unicode/utf8"
)

// parser splits output into characters, control characters and control sequences.
type parser struct {
	state   state
	char    [utf8.UTFMax]byte // an incomplete UTF-8 character.
	chars   int
	params  [maxParams]int
	count   int     // number of parameters.
	private byte    // prefix character of the parameters, or 0 if there is none.
	ignored bool    // the sequence contains an unsupported character.
	lines   [2]bool // the character sets G0 and G1 are the DEC line drawing set.
	shift   int     // the active set: 0 or 1.
	set     int     // the set that the next character selects.
	last    rune    // last character that was written.
}

type state byte

const (
	ground state = iota
	escape
	charset  // the next character selects the characters of a set.
	skipOne  // the next character is ignored.
	sequence // CSI.
	text     // a control string, such as a title or an image.
	textEnd  // ESC within a control string.
)

const (
	maxParams = 16
	maxParam  = 9999
	stringEnd = 0x9c // ST as a C1 control
)

func (s *Screen) take(c byte) {
	if s.chars > 0 || c >= utf8.RuneSelf {
		s.takeUTF8(c)
		return
	}
	s.rune(rune(c))
}

// takeUTF8 processes a byte of a multi-byte character. Invalid bytes become replacement characters.
// But the single byte 0x9C ends a control string, because programs with 8-bit controls send it.
func (s *Screen) takeUTF8(c byte) {
	if s.chars > 0 && utf8.RuneStart(c) {
		s.chars = 0
		s.rune(utf8.RuneError)
		s.take(c)
		return
	}
	s.char[s.chars] = c
	s.chars++
	if !utf8.FullRune(s.char[:s.chars]) {
		return
	}
	r, size := utf8.DecodeRune(s.char[:s.chars])
	if s.state == text && s.char[0] == stringEnd {
		r = stringEnd
	}
	rest := s.char[size:s.chars]
	s.chars = 0
	s.rune(r)
	for _, c := range rest {
		s.take(c)
	}
}

func (s *Screen) rune(r rune) {
	switch {
	case s.state == text || s.state == textEnd:
		s.inText(r)
	case r < ' ' || r == 0x7f:
		s.control(r)
	case r >= 0x80 && r <= 0x9f:
		s.escaped(r - 0x40) // a C1 control is equivalent to ESC and a letter
	case s.state == ground:
		s.write(r)
	case s.state == escape:
		s.escaped(r)
	case s.state == charset:
		s.state, s.lines[s.set] = ground, r == '0'
	case s.state == skipOne:
		s.state = ground
	default:
		s.inSequence(r)
	}
}

// inText skips a character of a control string. BEL, ST (also as ESC \), CAN and SUB end the
// string.
func (s *Screen) inText(r rune) {
	switch {
	case r == 0x07 || r == 0x18 || r == 0x1a || r == stringEnd || s.state == textEnd && r == '\\':
		s.state = ground
	case r == 0x1b:
		s.state = textEnd
	case s.state == textEnd: // the ESC begins a new sequence
		s.state = escape
		s.rune(r)
	}
}

func (s *Screen) control(r rune) {
	p := s.now
	switch r {
	case '\b':
		p.col = max(p.column()-1, 0)
	case '\t':
		p.tab(1)
	case '\n', '\v', '\f':
		p.at(p.row).joins = false
		p.down()
	case '\r':
		p.col = 0
	case 0x0e:
		s.shift = 1
	case 0x0f:
		s.shift = 0
	case 0x18, 0x1a:
		s.state = ground
	case 0x1b:
		s.state = escape
	}
}

// tab moves the cursor n tab stops forward, or backward if n is negative.
func (p *page) tab(n int) {
	const stop = 8
	col := p.column()/stop*stop + n*stop
	if n < 0 && p.column()%stop != 0 {
		col += stop
	}
	p.move(p.row, col)
}

// escaped executes the sequence of ESC and the character r.
func (s *Screen) escaped(r rune) {
	s.state = ground
	p := s.now
	switch r {
	case '[':
		s.state, s.params, s.count, s.private, s.ignored = sequence, [maxParams]int{}, 0, 0, false
	case ']', 'P', 'X', '^', '_':
		s.state = text
	case '(', ')':
		s.state, s.set = charset, int(r-'(')
	case '*', '+', '#', '%', ' ':
		s.state = skipOne
	case '7':
		p.saved = position{p.row, p.column()}
	case '8':
		p.move(p.saved.row, p.saved.col)
	case 'D':
		p.down()
	case 'E':
		p.col = 0
		p.down()
	case 'M':
		p.up()
	case 'c':
		s.reset()
	}
}

// inSequence processes a character of a control sequence.
func (s *Screen) inSequence(r rune) {
	switch {
	case r >= '0' && r <= '9':
		if s.count == 0 {
			s.count = 1
		}
		n := &s.params[s.count-1]
		*n = min(*n*10+int(r-'0'), maxParam)
	case r == ';' || r == ':':
		if s.count == 0 {
			s.count = 1
		}
		if s.count < maxParams {
			s.count++
		}
	case r >= '<' && r <= '?':
		s.private = byte(r)
	case r >= ' ' && r <= '/':
		s.ignored = true
	case r >= '@' && r <= '~':
		s.state = ground
		if !s.ignored {
			s.perform(r)
		}
	default:
		s.state = ground
	}
}

// write writes a character.
func (s *Screen) write(r rune) {
	if s.lines[s.shift] && r >= '`' && r <= '~' {
		r = lineDrawing[r-'`']
	}
	s.last = r
	s.now.put(r, Width(r))
}

// lineDrawing is the DEC Special Graphics character set. Its first character replaces `, its last
// ~.
var lineDrawing = []rune("◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·")
