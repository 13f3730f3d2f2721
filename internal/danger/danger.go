// Package danger decides which shell commands need a person's confirmation.
//
// It is a speed bump against mistakes, and no boundary: a program that means harm gets past it.
//
// A command is parsed as bash does, and followed through what its text alone says: variables,
// functions, aliases, pipes, files that it writes, and programs that run other programs. Three
// outcomes need a confirmation:
//
//   - it does harm by the rules: it removes, overwrites or stops what a person would miss
//   - it can't be told what runs: a name that is made when it runs, or text that a shell reads
//     from elsewhere
//   - it can't be parsed, or is too large to be followed
//
// Arguments that are data, as those of echo, grep and git commit, are never taken for commands.
// Scripts that exist already are not read.
package danger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MaxCommand is the length up to which commands are parsed, in bytes. Longer ones need
// confirmation.
const MaxCommand = 64 << 10

// Bounds of a verdict, and of the work for one command.
const (
	maxMatches = 16
	maxMatch   = 160
	maxSteps   = 20000
	maxDepth   = 200
	maxText    = 32 << 10
	maxWords   = 1000
	maxCalls   = 8 // of functions and aliases by each other: they may have no end
)

// Place is where a command would run.
type Place struct {
	Cwd string            // absolute; "": not known
	Env map[string]string // variables that are set for it
}

// Verdict says whether a command needs a person's confirmation, and why.
type Verdict struct {
	Dangerous bool     // it needs confirmation
	Harms     bool     // it does harm by a rule, and is not merely unclear
	Matches   []string // why, for people: at most 16 reasons of at most 160 bytes
}

func (v *Verdict) add(harms bool, format string, args ...any) {
	v.Dangerous, v.Harms = true, v.Harms || harms
	match := printable(fmt.Sprintf(format, args...))
	if len(match) > maxMatch {
		match = strings.ToValidUTF8(match[:maxMatch-len("…")], "") + "…"
	}
	if len(v.Matches) < maxMatches && !slices.Contains(v.Matches, match) {
		v.Matches = append(v.Matches, match)
	}
}

func (v *Verdict) merge(other Verdict) {
	for _, m := range other.Matches {
		v.add(other.Harms, "%s", m)
	}
}

// Rules decide what is dangerous. They may be used by many goroutines at once.
type Rules struct {
	patterns []pattern // a user's, which replace the built-in rules
}

// Check looks at a command as it would be given to a shell. It ends in bounded time.
func (r *Rules) Check(command string, at Place) Verdict {
	v, _ := r.check("", command, at)
	return v
}

// check looks at a command that comes after earlier ones, of which only their settings count. It
// also gives the folder that the shell is in afterwards.
func (r *Rules) check(earlier, text string, at Place) (v Verdict, cwd string) {
	r.match(&v, text)
	if len(text) > MaxCommand {
		v.add(false, "cannot be checked: longer than %d KiB", MaxCommand>>10)
		return v, at.Cwd
	}
	c := newChecker(r, &v, at)
	defer func() { cwd = c.sh.cwd }()
	defer c.guard(&v)
	for _, name := range slices.Sorted(maps.Keys(at.Env)) {
		c.assign(name, at.Env[name])
	}
	if earlier != "" {
		c.v = &Verdict{} // it was reported already
		c.script(earlier, nil)
		c.v, c.sh.cwd = &v, at.Cwd
	}
	c.script(strings.NewReplacer(hole, "?", me, "?").Replace(text), nil)
	c.quietly(func() {
		for _, name := range slices.Sorted(maps.Keys(c.uncalled)) {
			c.sh.args = nil
			c.stmt(c.uncalled[name], nil)
		}
	})
	return v, c.sh.cwd
}

// match applies a user's patterns to a text.
func (r *Rules) match(v *Verdict, text string) {
	for _, p := range r.patterns {
		if p.MatchString(text) {
			v.add(true, "matches %s", p)
		}
	}
}

// printable is a text without what could do more on a terminal than be read.
func printable(s string) string {
	s = strings.NewReplacer("/home/"+me, "~", hole, "…").Replace(s)
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ' || r >= 0x7f && r <= 0x9f || r == 0xfffd:
			return -1
		}
		return r
	}, s)
}
