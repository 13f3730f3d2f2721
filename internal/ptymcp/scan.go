package ptymcp

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// Package regexp takes some 40 ns for each byte of what does not match, which is what a terminal has most of. So whether there is a match, and where the first one
// ends, is found by an automaton that is made as far as the text needs it, at some 2 ns a byte; and regexp looks at that place alone.

// Bounds of an automaton.
const (
	maxStates   = 1 << 10
	maxEdges    = 1 << 16
	maxRestarts = 8        // how often it is made anew before it is given up for a text
	maxWindow   = 64 << 10 // bytes before the end of the first match in which its beginning is looked for
)

// expression is a regular expression that searches through much text fast.
type expression struct {
	re       *regexp.Regexp
	prefix   []byte // that all matches begin with
	anchored bool   // it looks at where the text begins
	prog     *syntax.Prog
	states   map[string]*state
	edges    int // of states to others by characters that are not ASCII
}

func newExpression(pattern string) (*expression, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	prefix, _ := re.LiteralPrefix()
	e := &expression{re: re, prefix: []byte(prefix), prog: prog, states: map[string]*state{}}
	for _, inst := range prog.Inst {
		e.anchored = e.anchored || inst.Op == syntax.InstEmptyWidth && syntax.EmptyOp(inst.Arg)&syntax.EmptyBeginText != 0
	}
	return e, nil
}

// find gives the first match: of those that are complete in the text, the one that is complete first, or one that began up to 64 KiB before its end.
func (e *expression) find(text []byte) []int {
	if !bytes.Contains(text, e.prefix) {
		return nil
	}
	end, ok := e.firstEnd(text)
	switch {
	case !ok || end >= 0 && (e.anchored || end <= maxWindow):
		return e.re.FindIndex(text)
	case end < 0:
		return nil
	}
	// From the beginning of a line, so that it looks as it would in the whole text.
	from := end - maxWindow
	line := bytes.IndexByte(text[from:end], '\n')
	if line < 0 {
		return e.re.FindIndex(text)
	}
	from += line + 1
	if at := e.re.FindIndex(text[from:]); at != nil {
		return []int{from + at[0], from + at[1]}
	}
	return e.re.FindIndex(text) // it began before that
}

// state is what may match at a place: the instructions that are to be looked at there, and what was before it.
type state struct {
	pcs    []uint32
	prev   rune      // one like it: -1 for the beginning of the text
	ascii  [128]edge // by the character that comes
	others map[rune]edge
}

// edge leads to the next state. match tells whether a match ends before the character that it is for.
type edge struct {
	to    *state
	match bool
}

// firstEnd tells where the match that ends first ends, -1 where there is none. ok is false where that can't be told.
func (e *expression) firstEnd(text []byte) (end int, ok bool) {
	s, restarts := e.state(nil, -1), 0
	for i := 0; i < len(text); {
		var next edge
		n := 1
		if b := text[i]; b < utf8.RuneSelf {
			if next = s.ascii[b]; next.to == nil {
				next = e.step(s, rune(b))
				s.ascii[b] = next
			}
		} else {
			var r rune
			r, n = utf8.DecodeRune(text[i:])
			if next = s.others[r]; next.to == nil {
				next = e.step(s, r)
				if s.others == nil {
					s.others = map[rune]edge{}
				}
				s.others[r] = next
				e.edges++
			}
		}
		if next.match {
			return i, true
		}
		s = next.to
		i += n
		if len(e.states) > maxStates || e.edges > maxEdges {
			if restarts++; restarts > maxRestarts {
				return 0, false
			}
			e.states, e.edges = map[string]*state{}, 0
			s = e.state(s.pcs, s.prev)
		}
	}
	if e.step(s, -1).match {
		return len(text), true
	}
	return -1, true
}

// step is the edge of a character, -1 for the end.
func (e *expression) step(s *state, r rune) (next edge) {
	given := syntax.EmptyOpContext(s.prev, r)
	var after []uint32
	seen := map[uint32]bool{}
	stack := append([]uint32{uint32(e.prog.Start)}, s.pcs...) // a match may begin anywhere
	for len(stack) > 0 {
		pc := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[pc] {
			continue
		}
		seen[pc] = true
		switch inst := &e.prog.Inst[pc]; inst.Op {
		case syntax.InstMatch:
			next.match = true
		case syntax.InstAlt, syntax.InstAltMatch:
			stack = append(stack, inst.Out, inst.Arg)
		case syntax.InstCapture, syntax.InstNop:
			stack = append(stack, inst.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^given == 0 {
				stack = append(stack, inst.Out)
			}
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			if r >= 0 && inst.MatchRune(r) {
				after = append(after, inst.Out)
			}
		}
	}
	next.to = e.state(after, r)
	return next
}

// state is the one of some instructions and of what is before them.
func (e *expression) state(pcs []uint32, prev rune) *state {
	switch {
	case prev < 0 || prev == '\n':
	case syntax.IsWordChar(prev):
		prev = 'a'
	default:
		prev = ' '
	}
	slices.Sort(pcs)
	pcs = slices.Compact(pcs)
	key := make([]byte, 0, 64)
	key = append(key, byte(prev))
	for _, pc := range pcs {
		key = binary.AppendUvarint(key, uint64(pc))
	}
	if s := e.states[string(key)]; s != nil {
		return s
	}
	s := &state{pcs: pcs, prev: prev}
	e.states[string(key)] = s
	return s
}
