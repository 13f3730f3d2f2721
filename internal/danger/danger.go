// Package danger decides which shell commands need a person's confirmation, and keeps the confirmations.
//
// It is a speed bump for those who mean well, and never a boundary: whoever wants to can write a program that no reader of commands sees through. What
// contains a command is the machine that it runs in.
//
// # What is looked at
//
// The patterns run on the command as it is written, as documented. Beside them the command is parsed, and its words are worked out as a shell would: quotes,
// expansions, substitutions, braces and globs; through wrappers (sudo, env, xargs, find -exec), shells (sh -c, eval, source, pipelines and here-documents into
// a shell), functions, aliases, variables and files that the same text makes. Each simple command that is found this way is given to the patterns as plain words,
// and, where the default patterns hold, to rules of their own (rules.go). A variable has every value that the text gives it anywhere.
//
// # What can't be known
//
//   - A program whose name a command makes ($(…), a glob, a computed expansion) needs confirmation: nobody writes that by hand.
//   - A program named by a variable that the text does not set ($CC, "$EDITOR") is judged by its arguments: as none, and as any program that would do
//     harm with them. `$CC -O2 x.c` passes, `$X -rf /` does not.
//   - A variable with a default (${X:-sudo}) that the text does not set has that default.
//   - What is removed recursively must be known to be small: a word that is unknown from its beginning to its end ("$X", $(cat list), "$X"/*) needs
//     confirmation; "$TMPDIR/x", build-$(date), $(mktemp -d) and what find or git list below the working folder do not. As "$X" may be empty, "$X/etc" counts as /etc.
//   - Text that nobody here knows, read by a shell or an interpreter as its program (curl … | sh), needs confirmation. So does code that hides what it runs.
//   - What can't be parsed, is longer than [MaxCommand], nests too deep or takes too many steps needs confirmation.
//
// Scripts and programs that a command runs from files are not read.
package danger

import (
	"fmt"
	"slices"
	"strings"
)

// MaxCommand is the length up to which commands are parsed, in bytes. Longer ones need confirmation.
const MaxCommand = 64 << 10

// Bounds of what a verdict tells.
const (
	maxMatches = 16
	maxMatch   = 160
)

// Verdict says whether a command needs a person's confirmation, and why.
type Verdict struct {
	Dangerous bool     // it needs confirmation
	Matches   []string // why, for people to read: 16 reasons at most, of 160 bytes at most
	Unparsed  bool     // not all of it could be looked at, which alone makes it Dangerous
}

func (v *Verdict) add(format string, args ...any) {
	v.Dangerous = true
	match := printable(fmt.Sprintf(format, args...))
	if len(match) > maxMatch {
		match = strings.ToValidUTF8(match[:maxMatch-len("…")], "") + "…"
	}
	if len(v.Matches) < maxMatches && !slices.Contains(v.Matches, match) {
		v.Matches = append(v.Matches, match)
	}
}

func (v *Verdict) unparsed(why string) {
	v.Unparsed = true
	v.add("cannot be checked: %s", why)
}

// Rules decide what is dangerous. They may be used by many goroutines at once.
type Rules struct {
	patterns []pattern
	own      bool // the patterns are a user's, which replace the built-in rules too
}

// Check looks at a command as it would be given to a shell. It ends in bounded time, whatever the command is.
func (r *Rules) Check(command string) Verdict {
	return r.check("", nil, command)
}

// check looks at a command that comes after earlier ones, of which only what they set counts: variables, functions, aliases, the folder. reader is what reads the
// command, where it is no shell.
func (r *Rules) check(earlier string, reader *interpreter, command string) (v Verdict) {
	if len(command) > MaxCommand {
		v.unparsed(fmt.Sprintf("longer than %d KiB", MaxCommand>>10))
		command = command[:MaxCommand]
		r.match(&v, command)
		return v
	}
	r.match(&v, command)
	c := newChecker(r, &v)
	c.guard(func() {
		if earlier != "" {
			c.muted = true
			c.shell(earlier, input{})
			c.muted = false
			for name := range c.funcs {
				c.called[name] = true
			}
		}
		if reader != nil {
			c.code(*reader, command, nil)
		} else {
			c.script(command)
		}
	})
	return v
}

// match applies the patterns to a text.
func (r *Rules) match(v *Verdict, text string) {
	for _, p := range r.patterns {
		if p.MatchString(text) {
			v.add("%s", p.told)
		}
	}
}

// printable is a text without what could do more on a terminal than be read.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == anyEnv || r == anyMade:
			return '…'
		case r == anyText:
			return '*'
		case r == anyByte:
			return '?'
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ' || r >= 0x7f && r <= 0x9f || r == 0xfffd:
			return -1
		}
		return r
	}, s)
}
