package patch

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// maxSteps bounds how many lines are compared to find the places of all hunks of a patch, so that none can be made to take hours. It is some two seconds.
const maxSteps = 100 << 20

// patching is the content of a file while hunks are put into it.
type patching struct {
	path  string
	lines lines // of the file
	done  int   // how many of them are in out, or were removed
	drift int   // how far the last hunk was from where its header says
	moved int   // hunks
	out   bytes.Buffer
	steps *int // that are left
}

// patchText gives what hunks make of a file's content. They must be in the order of the file.
func patchText(path string, data []byte, hunks []hunk, steps *int) (result []byte, moved int, err error) {
	if bytes.Count(data, []byte("\n")) >= MaxLines {
		return nil, 0, fault.New(fault.Exhausted, op, path, "it has more than %d lines", MaxLines)
	}
	p := &patching{path: path, lines: linesOf(data), steps: steps}
	p.out.Grow(len(data))
	for i := range hunks {
		k := &hunks[i]
		old := k.from(p.lines.count() + 1) // more would not match anyway
		at, err := p.place(k, i+1, old)
		if err != nil {
			return nil, 0, err
		}
		p.apply(k, at, old)
	}
	p.keep(p.lines.count())
	return p.out.Bytes(), p.moved, nil
}

// place finds the line, counted from 0, at which a hunk applies.
func (p *patching) place(k *hunk, n int, old lines) (int, error) {
	if k.old == 0 {
		if p.lines.count() > 0 {
			return 0, p.conflict(k, n, "has neither context nor removed lines to be found by, and the file is not empty")
		}
		return 0, nil
	}
	stated := k.start - 1
	at, last := stated+p.drift, p.lines.count()-k.old
	if at < p.done || at > last || !p.matches(at, old) {
		var found []int
		for at := p.done; at <= last && len(found) < 4 && *p.steps > 0; at++ {
			if p.matches(at, old) {
				found = append(found, at)
			}
		}
		switch {
		case *p.steps <= 0:
			return 0, fault.New(fault.Exhausted, op, p.path, "finding where the hunks belong takes too long: their line numbers are not right, and too many lines are like them")
		case len(found) == 0:
			return 0, p.mismatch(k, n, at, old)
		case len(found) > 1:
			var where []string
			for _, at := range found {
				where = append(where, fmt.Sprint(at+1))
			}
			return 0, p.conflict(k, n, "matches not at line %d, and at more than one other (%s): it needs more lines of context", max(k.start, 1), strings.Join(where, ", "))
		}
		at = found[0]
	}
	if p.drift = at - stated; p.drift != 0 {
		p.moved++
	}
	return at, nil
}

// matches tells whether the old lines of a hunk are those of the file from a line on, whatever they end in. But a line without a line break in the patch
// must be the last one of the file.
func (p *patching) matches(at int, old lines) bool {
	for i := range old.count() {
		line, found := old.at(i), p.lines.at(at+i)
		*p.steps -= 1 + min(len(line), len(found))>>6
		if !sameText(line, found) || !ended(line) && at+i != p.lines.count()-1 {
			return false
		}
	}
	return true
}

// apply puts a hunk into the result.
func (p *patching) apply(k *hunk, at int, old lines) {
	exact := true
	for i := range old.count() {
		exact = exact && bytes.Equal(old.at(i), p.lines.at(at+i))
	}
	p.keep(at)
	for sign, s := range k.each() {
		switch line := k.body[s.from:s.to]; {
		case sign == ' ':
			p.keep(p.done + 1)
		case sign == '-':
			p.done++
		case exact || !ended(line):
			p.put(line)
		default:
			p.put(append(bytes.Clone(bare(line)), p.ending()...))
		}
	}
}

// keep puts the lines of the file up to one into the result.
func (p *patching) keep(until int) {
	if p.done < until {
		p.put(p.lines.text[p.lines.spans[p.done].from:p.lines.spans[until-1].to])
		p.done = until
	}
}

// put adds lines to the result. One before it that was the last of a file without a line break gets one.
func (p *patching) put(text []byte) {
	if b := p.out.Bytes(); len(b) > 0 && b[len(b)-1] != '\n' {
		p.out.Write(p.ending())
	}
	p.out.Write(text)
}

// ending is what the lines here end in: as the last one before, or the next one.
func (p *patching) ending() []byte {
	for _, i := range []int{p.done - 1, p.done - 2, p.done} { // of two in a row one has a line break
		if i >= 0 && i < p.lines.count() && ended(p.lines.at(i)) {
			line := p.lines.at(i)
			return line[len(bare(line)):]
		}
	}
	return []byte("\n")
}
