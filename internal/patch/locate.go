package patch

import (
	"bytes"
	"fmt"
	"sort"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// maxSteps limits the number of line comparisons for all hunks of a patch. So many comparisons take
// about two seconds. The limit protects against patches that would take hours.
const maxSteps = 100 << 20

// patching is the state of applying hunks to one file.
type patching struct {
	path    string
	link    bool   // The content is a link target, which has no line break at its end.
	lines   lines  // Lines of the old file.
	done    int    // Number of old lines that were copied or removed.
	matched []span // Ranges of old lines that earlier hunks matched.
	grown   int    // Number of added lines minus number of removed lines.
	drift   int    // Distance of the last hunk from the line in its header.
	moved   int    // Number of hunks that were applied at a line other than the line in their header.
	out     bytes.Buffer
	steps   *int // Number of comparisons left.
}

// patchText applies hunks to the content of a file. The hunks must be in the order of the file.
func patchText(path string, data []byte, hunks []hunk, link bool, steps *int) (result []byte, moved int, err error) {
	if bytes.Count(data, []byte("\n")) >= MaxLines {
		return nil, 0, fault.New(fault.Exhausted, op, path, "it has more than %d lines", MaxLines)
	}
	p := &patching{path: path, link: link, lines: linesOf(data), steps: steps}
	p.out.Grow(len(data))
	for i := range hunks {
		k := &hunks[i]
		old := k.from(p.lines.count() + 1) // A longer hunk can't match.
		at, err := p.locate(k, i+1, old)
		if err != nil && k.longer != nil {
			longer := k.longer.from(p.lines.count() + 1)
			if found, failed := p.locate(k.longer, i+1, longer); failed == nil {
				*k = *k.longer
				at, old, err = found, longer, nil
			}
		}
		if err != nil {
			return nil, 0, err
		}
		p.apply(k, at, old)
	}
	p.keep(p.lines.count())
	return p.out.Bytes(), p.moved, nil
}

// locate returns the index of the line where a hunk applies. For the rules see the package comment.
func (p *patching) locate(k *hunk, n int, old lines) (at int, err error) {
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
		return 0, p.errMisplaced(k, n, want, old)
	}
	if p.drift = at - stated; p.drift != 0 {
		p.moved++
	}
	return at, nil
}

// atEnd returns the line for a hunk that only adds lines and has no context. The line must be the
// end of the file. At any other line, the hunk contains no line that could show that the file is
// unchanged.
func (p *patching) atEnd(k *hunk, n int) (int, error) {
	count := p.lines.count()
	if count == 0 || k.start == count && count > 1 && ended(p.lines.at(count-1)) {
		return count, nil
	}
	return 0, p.conflict(k, n, "has neither context nor removed lines, and line %d is not the end of the file: diff with context, not with -U0", k.start)
}

// nearest reports whether a hunk matches at a line. However, it returns false if another match is
// just as close to the line that the header states for the new file.
func (p *patching) nearest(k *hunk, at int, old lines) bool {
	if at < p.done || !p.matches(at, old) {
		return false
	}
	named := k.newStart - 1 - p.grown
	if k.new == 0 {
		named++ // If there are no new lines, the header states the line before.
	}
	reach := distance(at, named)
	for other := max(0, named-reach); other <= min(named+reach, p.lines.count()-k.old) && *p.steps > 0; other++ {
		if other != at && p.fits(other, old) {
			return false
		}
	}
	return *p.steps > 0
}

// search finds the only line where a hunk matches. It is used if the hunk does not match at the
// line in its header.
func (p *patching) search(k *hunk, n, want int, old lines) (int, error) {
	if p.applied(k, want) {
		return 0, p.errMisplaced(k, n, want, old)
	}
	var found []int
	for at := 0; at <= p.lines.count()-k.old && len(found) < 4 && *p.steps > 0; at++ {
		if p.fits(at, old) {
			found = append(found, at)
		}
	}
	switch {
	case *p.steps <= 0:
		return 0, fault.New(fault.Exhausted, op, p.path, "the search for the hunks takes too long: their line numbers are wrong, and they match too many lines")
	case len(found) == 0:
		return 0, p.errMisplaced(k, n, want, old)
	case len(found) > 1:
		var where []string
		for _, at := range found {
			where = append(where, fmt.Sprint(at+1))
		}
		return 0, p.conflict(k, n, "does not clearly belong to line %d: it matches at several lines (%s) and needs more context", max(k.start, 1), strings.Join(where, ", "))
	case found[0] < p.done:
		return 0, p.conflict(k, n, "matches only at line %d, before the previous hunk: hunks must be in file order", found[0]+1)
	}
	return found[0], nil
}

// applied reports whether the file already contains the result of a hunk at a line.
func (p *patching) applied(k *hunk, at int) bool {
	return k.added > 0 && p.matches(at, k.to(p.lines.count()+1))
}

// fits reports whether a hunk matches at a line. The match must not overlap lines that an earlier
// hunk matched.
func (p *patching) fits(at int, old lines) bool {
	if !p.matches(at, old) {
		return false
	}
	i := sort.Search(len(p.matched), func(i int) bool { return int(p.matched[i].to) > at })
	return i == len(p.matched) || int(p.matched[i].from) >= at+old.count()
}

// matches reports whether the lines of a hunk equal the lines of the file, starting at a given
// line. It ignores line ends. If a line has no line break in the patch, it must be the last line of
// the file. Link targets must match byte by byte.
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

// apply writes the result of a hunk to out.
func (p *patching) apply(k *hunk, at int, old lines) {
	exact := true
	for i := range old.count() {
		exact = exact && bytes.Equal(old.at(i), p.lines.at(at+i))
	}
	p.keep(at)
	p.matched = append(p.matched, span{int32(at), int32(at + k.old)})
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

// keep copies the old lines up to an index to the output.
func (p *patching) keep(until int) {
	if p.done < until {
		p.put(p.lines.text[p.lines.spans[p.done].from:p.lines.spans[until-1].to])
		p.done = until
	}
}

// put appends lines to the output. If the previous line has no line break, put adds one.
func (p *patching) put(text []byte) {
	if b := p.out.Bytes(); len(b) > 0 && b[len(b)-1] != '\n' {
		p.out.Write(p.ending())
	}
	p.out.Write(text)
}

// ending returns the line break of the previous line, or if there is none, of the next line.
func (p *patching) ending() []byte {
	for _, i := range []int{p.done - 1, p.done - 2, p.done} { // Of two adjacent lines, at least one has a line break.
		if i >= 0 && i < p.lines.count() && ended(p.lines.at(i)) {
			line := p.lines.at(i)
			return line[len(bare(line)):]
		}
	}
	return []byte("\n")
}
