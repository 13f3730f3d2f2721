// Package danger decides which shell commands need a person's confirmation.
//
// The check prevents mistakes. It is not a security boundary, because hostile code can evade it.
//
// The package parses a command as bash does. It then simulates what the command does with
// variables, functions, aliases, pipes, files that the command writes, and programs that run other
// programs.
// A command needs confirmation if one of these statements is true:
//
//   - It breaks a rule: it removes, overwrites or stops something that a person would miss.
//   - The text does not show which program or script the command runs.
//   - It can't be parsed, or it is too large to check.
//
// The arguments of echo, grep, git commit and similar programs are data and never count as
// commands. The package does not read script files that exist before the command.
package danger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MaxCommand is the maximum length of a command that the package parses, in bytes. A longer command
// always needs confirmation.
const MaxCommand = 64 << 10

// Limits on a verdict, and on the work for one command.
const (
	maxMatches = 16
	maxMatch   = 160 // bytes
	maxSteps   = 20000
	maxDepth   = 200
	maxText    = 32 << 10 // maximum size of one value, in bytes
	maxWords   = 1000
	maxCalls   = 8 // maximum depth of nested function calls
)

// Start describes the initial state of the shell that runs the command.
type Start struct {
	Cwd string            // absolute, or "" if it is unknown
	Env map[string]string // environment variables that the caller sets for the command
}

// Verdict reports whether a command needs a person's confirmation, and why.
type Verdict struct {
	Dangerous bool     // the command needs confirmation
	Harmful   bool     // the command breaks a rule; if false, the command is at most unclear
	Matches   []string // reasons to show to people: at most 16, with at most 160 bytes each
}

func (v *Verdict) add(harmful bool, format string, args ...any) {
	v.Dangerous, v.Harmful = true, v.Harmful || harmful
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
		v.add(other.Harmful, "%s", m)
	}
}

// Rules decide which commands are dangerous. They are safe for concurrent use.
type Rules struct {
	patterns []pattern // the user's patterns, which replace the built-in rules
}

// Check checks a command that a new shell runs. The time and memory that it needs have a limit.
func (r *Rules) Check(command string, start Start) Verdict {
	v, _ := r.check("", command, start)
	return v
}

// check checks a command that runs after earlier commands in the same shell. It also returns the
// working directory after the command. It does not report matches in the earlier commands again.
func (r *Rules) check(earlier, command string, start Start) (v Verdict, cwd string) {
	r.match(&v, command)
	if len(command) > MaxCommand {
		v.add(false, "cannot be checked: longer than %d KiB", MaxCommand>>10)
		return v, start.Cwd
	}
	c := newChecker(r, &v, start.Cwd)
	attempt(&v, func() {
		for _, name := range slices.Sorted(maps.Keys(start.Env)) {
			c.assign(name, start.Env[name])
		}
		if earlier != "" {
			c.v = &Verdict{}
			c.script(earlier)
			c.v, c.sh.cwd = &v, start.Cwd
		}
		c.script(strings.NewReplacer(unknown, "?", user, "?").Replace(command))
	})
	return v, c.sh.cwd
}

// match applies the user's patterns to a text.
func (r *Rules) match(v *Verdict, text string) {
	for _, p := range r.patterns {
		if p.MatchString(text) {
			v.add(true, "matches %s", p)
		}
	}
}

// printable removes control characters from s, so that s is safe to print on a terminal.
func printable(s string) string {
	s = strings.NewReplacer("/home/"+user, "~", unknown, "…").Replace(s)
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
