package patch

import (
	"bytes"
	"fmt"
	"sort"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// maxSteps bounds how many lines are compared to find the places of all hunks of a patch, so that none can be made to take hours. It is some two seconds.
const maxSteps = 100 << 20

// patching is the content of a file while hunks are put into it.
type patching struct {
	path  string
	link  bool   // the file is the target of a link, which has no line breaks but its own
	lines lines  // of the file
	done  int    // how many of them are in out, or were removed
	taken []span // the lines that hunks have been matched with
	grown int    // how many more lines the result has so far
	drift int    // how far the last hunk was from where its header says
	moved int    // hunks
	out   bytes.Buffer
	steps *int // that are left
}

// patchText gives what hunks make of a file's content. They must be in the order of the file.
func patchText(path string, data []byte, hunks []hunk, link bool, steps *int) (result []byte, moved int, err error) {
	if bytes.Count(data, []byte("\n")) >= MaxLines {
		return nil, 0, fault.New(fault.Exhausted, op, path, "it has more than %d lines", MaxLines)
	}
	p := &patching{path: path, link: link, lines: linesOf(data), steps: steps}
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

// place finds the line, counted from 0, at which a hunk applies. See the package's documentation.
func (p *patching) place(k *hunk, n int, old lines) (at int, err error) {
	stated := k.start - 1
	want := stated + p.drift
	switch end := p.lines.count() - k.old; {
	case k.old == 0:
		return p.atEnd(k, n)
	case k.before == 0 && k.start <= 1:
		at = 0
	case k.after == 0:
		at = end
	default:
		if at = want; !p.nearest(k, at, old) {
			if at, err = p.search(k, n, at, old); err != nil {
				return 0, err
			}
		}
	}
	bare := k.before == 0 && k.after == 0
	if at < p.done || k.after == 0 && at+k.old != p.lines.count() || bare && at != max(want, 0) || !p.matches(at, old) {
		return 0, p.misplaced(k, n, want, old)
	}
	if p.drift = at - stated; p.drift != 0 {
		p.moved++
	}
	return at, nil
}

// atEnd is the place of a hunk that only adds lines and has no context: the end of the file, if its header names it. Elsewhere nothing would tell whether
// the file is as it was.
func (p *patching) atEnd(k *hunk, n int) (int, error) {
	count := p.lines.count()
	if count == 0 || k.start == count && count > 1 && ended(p.lines.at(count-1)) {
		return count, nil
	}
	return 0, p.conflict(k, n, "has neither context nor removed lines to be found by, and line %d is not the end of the file: diff with context, not with -U0", k.start)
}

// nearest tells whether a hunk matches at a line, and no other line is as close to what its header says of the new file.
func (p *patching) nearest(k *hunk, at int, old lines) bool {
	if at < p.done || !p.matches(at, old) {
		return false
	}
	named := k.newStart - 1 - p.grown
	if k.new == 0 {
		named++ // its header names the line before
	}
	reach := distance(at, named)
	for other := max(0, named-reach); other <= min(named+reach, p.lines.count()-k.old) && *p.steps > 0; other++ {
		if other != at && p.fits(other, old) {
			return false
		}
	}
	return *p.steps > 0
}

// search finds the one place at which a hunk matches that does not match where it should.
func (p *patching) search(k *hunk, n, want int, old lines) (int, error) {
	if p.applied(k, want) {
		return 0, p.misplaced(k, n, want, old)
	}
	var found []int
	for at := 0; at <= p.lines.count()-k.old && len(found) < 4 && *p.steps > 0; at++ {
		if p.fits(at, old) {
			found = append(found, at)
		}
	}
	switch {
	case *p.steps <= 0:
		return 0, fault.New(fault.Exhausted, op, p.path, "finding where the hunks belong takes too long: their line numbers are not right, and too many lines are like them")
	case len(found) == 0:
		return 0, p.misplaced(k, n, want, old)
	case len(found) > 1:
		var where []string
		for _, at := range found {
			where = append(where, fmt.Sprint(at+1))
		}
		return 0, p.conflict(k, n, "does not clearly belong to line %d: it matches in more than one place (%s), and needs more lines of context", max(k.start, 1), strings.Join(where, ", "))
	case found[0] < p.done:
		return 0, p.conflict(k, n, "matches only at line %d, before the hunk before it: hunks come in the order of the file", found[0]+1)
	}
	return found[0], nil
}

// applied tells whether a line on is as it would be after a hunk.
func (p *patching) applied(k *hunk, at int) bool {
	return k.added > 0 && p.matches(at, k.to(p.lines.count()+1))
}

// fits tells whether a hunk matches at a line, and no hunk before was matched with what is there.
func (p *patching) fits(at int, old lines) bool {
	if !p.matches(at, old) {
		return false
	}
	i := sort.Search(len(p.taken), func(i int) bool { return int(p.taken[i].to) > at })
	return i == len(p.taken) || int(p.taken[i].from) >= at+old.count()
}

// matches tells whether lines of a hunk are those of the file from a line on, whatever they end in. But a line without a line break in the patch must be
// the last one of the file. The target of a link must be the same to the byte.
func (p *patching) matches(at int, old lines) bool {
	if at < 0 || at+old.count() > p.lines.count() {
		return false
	}
	for i := range old.count() {
		line, found := old.at(i), p.lines.at(at+i)
		*p.steps -= 1 + min(len(line), len(found))>>6
		if !sameText(line, found) || p.link && !bytes.Equal(line, found) || !ended(line) && at+i != p.lines.count()-1 {
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
	p.taken = append(p.taken, span{int32(at), int32(at + k.old)})
	p.grown += k.added - k.removed
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
