package danger

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// editors are interpreters whose lines are text.
var editors = []string{"vim", "vi", "nvim", "ex", "ed", "emacs", "awk", "gawk", "mawk", "nawk"}

// informs are the options with which an interpreter reads no lines.
var informs = []string{"-c", "-e", "-m", "-p", "--eval", "--print", "--version", "-V", "--help", "-h", "-v"}

// interactive are wrappers that begin a shell where no command follows.
var interactive = []string{"sudo", "su", "ssh", "doas", "script", "unshare", "busybox", "chroot", "nsenter", "firejail", "runuser"}

// reads gives the interpreter that reads what is typed after a command, or whether that is a shell.
func reads(command string) (reader string, shell bool) {
	list := last(command)
	for range maxDepth {
		if len(list) == 0 {
			return "", false
		}
		name := programName(path.Base(list[0]))
		if w, ok := wrappers[name]; ok {
			rest := w.commands(list)
			if len(rest) == 0 {
				return "", slices.Contains(interactive, name)
			}
			list = rest[len(rest)-1]
			continue
		}
		if shells[name] {
			if i := slices.IndexFunc(list[1:], codeOption); i >= 0 && i+2 < len(list) {
				list = last(list[i+2])
				continue
			}
			return "", true
		}
		if _, ok := interpreters[name]; ok && !slices.Contains(editors, name) && len(operands(list)) == 0 &&
			!slices.ContainsFunc(list[1:], func(a string) bool { return slices.Contains(informs, a) }) {
			return name, false
		}
		return "", false
	}
	return "", false
}

// last gives the words of the last simple command of a text, where they are plain.
func last(text string) (list []string) {
	file, err := parseShort(text)
	if err != nil || len(file.Stmts) == 0 {
		return nil
	}
	c := newChecker(&Rules{own: true}, &Verdict{})
	c.muted = true
	c.guard(func() {
		s := file.Stmts[len(file.Stmts)-1]
		for {
			b, ok := s.Cmd.(*syntax.BinaryCmd)
			if !ok || b.Op == syntax.Pipe || b.Op == syntax.PipeAll {
				break
			}
			s = b.Y
		}
		if call, ok := s.Cmd.(*syntax.CallExpr); ok && len(s.Redirs) == 0 && !s.Background {
			if lists := c.args(call.Args); len(lists) > 0 && !strings.ContainsAny(strings.Join(lists[0], ""), unknowns) {
				list = lists[0]
			}
		}
	})
	return list
}
