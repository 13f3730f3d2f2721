package patch

import "fmt"

// closeSteps and closeLines limit the search for the best partial match. closeSteps is the number
// of comparisons, and closeLines is the number of hunk lines.
const (
	closeSteps = 8 << 20
	closeLines = 40
)

func (p *patching) conflict(k *hunk, n int, format string, args ...any) error {
	return (&Conflict{Path: p.path, Hunk: n, Header: printable([]byte(k.header)), Reason: fmt.Sprintf(format, args...)}).fault()
}

// errMisplaced returns the conflict for a hunk that does not match at the line where it must apply.
func (p *patching) errMisplaced(k *hunk, n, want int, old lines) error {
	switch {
	case p.applied(k, want):
		return p.conflict(k, n, "is already applied: the file has its result from line %d on", want+1)
	case p.link:
		return p.conflict(k, n, `does not match: this is a symbolic link, so its only line must be its target %q, followed by "\ No newline at end of file"`, brief(p.lines.text))
	}
	return p.mismatch(k, n, want, old)
}

// mismatch returns the conflict for a hunk that does not match anywhere. The conflict shows the
// lines of the best partial match.
func (p *patching) mismatch(k *hunk, n, want int, old lines) error {
	best := p.closest(max(p.done, min(want, p.lines.count())), old.between(0, closeLines))
	differs := 0 // index of the first different line
	for differs < old.count() && best+differs < p.lines.count() && sameText(old.at(differs), p.lines.at(best+differs)) {
		differs++
	}
	c := &Conflict{Path: p.path, Hunk: n, Header: printable([]byte(k.header))}
	switch line := best + differs; {
	case differs == old.count():
		c.Reason = fmt.Sprintf("does not match: it ends the file at line %d, but the file has more lines", line)
		switch ends := ended(old.at(old.count() - 1)); {
		case ends && k.new == 0 && k.start <= 1:
			c.Reason = fmt.Sprintf("removes %d lines and leaves none, but the file has %d", k.old, p.lines.count())
		case ends && k.before == 0 && k.after == 0:
			c.Reason = fmt.Sprintf("has no context, and its match at line %d may be wrong: diff with context, not with -U0", best+1)
		case ends && k.before == 0 && k.start <= 1:
			c.Reason = fmt.Sprintf("has no context before its changes, so it belongs to the start of the file, but it matches at line %d", best+1)
		case ends && k.after == 0:
			c.Reason = fmt.Sprintf("has no context after its changes, so it belongs to the end of the file, but it matches at line %d", best+1)
		}
		differs--
	case line < p.lines.count():
		c.Reason = fmt.Sprintf("does not match line %d: it expects %q but the file has %q", line+1, brief(old.at(differs)), brief(p.lines.at(line)))
	default:
		c.Reason = fmt.Sprintf("does not match: it expects %q, but the file ends after line %d", brief(old.at(differs)), p.lines.count())
	}
	from := max(0, differs-1)
	c.Line = best + from + 1
	c.Expected, c.Found = shown(old.between(from, old.count())), shown(p.lines.between(best+from, best+old.count()))
	return c.fault()
}

// closest returns the line at which most lines of the hunk match. If several lines are equally
// good, it returns the one nearest to want.
func (p *patching) closest(want int, old lines) int {
	best, most, steps := want, 0, 0
	for at := p.done; at < p.lines.count() && steps < closeSteps; at++ {
		same := 0
		for i := range min(old.count(), p.lines.count()-at) {
			steps += 1 + len(old.at(i))>>6
			if sameText(old.at(i), p.lines.at(at+i)) {
				same++
			}
		}
		if same > most || same == most && distance(at, want) < distance(best, want) {
			best, most = at, same
		}
	}
	return best
}

func distance(a, b int) int { return max(a-b, b-a) }

// brief shortens a line for use in a message.
func brief(line []byte) string {
	runes := []rune(printable(bare(line)))
	if len(runes) > 60 {
		return string(runes[:60]) + "…"
	}
	return string(runes)
}
