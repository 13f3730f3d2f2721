package ptymcp

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// Package regexp takes 40 ns per byte of text that has no match, and most output has none. This
// automaton takes 2 ns per byte. It creates its states when they are needed. It finds where the
// first match ends, so that regexp only has to search there.

// Limits of an automaton.
const (
	maxStates   = 1 << 10
	maxEdges    = 1 << 16
	maxRestarts = 8        // number of rebuilds before the automaton gives up
	maxWindow   = 64 << 10 // how far before the end of a match its beginning is searched, in bytes
)

// expression is a regular expression with a fast search for its first match.
type expression struct {
	re       *regexp.Regexp
	prefix   []byte // all matches begin with these bytes
	anchored bool   // the expression matches only at the beginning of the text
	prog     *syntax.Prog
	states   map[string]*state
	edges    int // number of edges for non-ASCII characters
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

// find returns the match that ends first, or another match that begins at most 64 KiB before that
// end.
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
	// Start at the beginning of a line, so that assertions in the expression see the same context.
	from := end - maxWindow
	line := bytes.IndexByte(text[from:end], '\n')
	if line < 0 {
		return e.re.FindIndex(text)
	}
	from += line + 1
	if at := e.re.FindIndex(text[from:]); at != nil {
		return []int{from + at[0], from + at[1]}
	}
	return e.re.FindIndex(text) // the match begins earlier
}

// state is a state of the automaton: the active instructions and the previous character.
type state struct {
	pcs    []uint32
	prev   rune      // the previous character, or a representative of its class; -1 at the beginning of the text
	ascii  [128]edge // edges by the next character
	others map[rune]edge
}

// edge leads to the next state. match is set if a match ends before the edge's character.
type edge struct {
	to    *state
	match bool
}

// firstEnd returns the end of the match that ends first, or -1 if there is no match. ok is false if
// the automaton gave up.
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

// step returns the edge for the character r. If r is -1, the edge is for the end of the text.
func (e *expression) step(s *state, r rune) (next edge) {
	given := syntax.EmptyOpContext(s.prev, r)
	var after []uint32
	seen := map[uint32]bool{}
	stack := append([]uint32{uint32(e.prog.Start)}, s.pcs...) // a match can begin here
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

// state returns the state with the given instructions and previous character.
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
