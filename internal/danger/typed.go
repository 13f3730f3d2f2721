package danger

import (
	"errors"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/pyro-mcp/pyro/internal/lazyregexp"
)

// Limits on typed text.
const (
	maxEarlier = 8 << 10 // maximum size of the earlier lines that are stored, in bytes
	maxLines   = 400     // maximum number of lines per call
)

// Typed is the state of a terminal after text was typed. It contains only the text that affects the
// check of later text. The zero value is a shell at its prompt. If the caller does not send the
// checked text, it must discard the new state and use the old one again. The JSON form contains
// typed text.
//
// Typed reconstructs a line from its keys. It does not support keys that search the history, and
// some rare editing keys. A line with such keys needs confirmation.
type Typed struct {
	Reader  string `json:"reader,omitempty"`  // the interpreter that reads the text, or "" for a shell.
	Other   bool   `json:"other,omitempty"`   // the program that reads is neither a shell nor an interpreter.
	Earlier string `json:"earlier,omitempty"` // earlier lines that can set values for later lines.
	Pending string `json:"pending,omitempty"` // lines of an unfinished command.
	Line    string `json:"line,omitempty"`    // text before the cursor.
	After   string `json:"after,omitempty"`   // text after the cursor.
	Escape  string `json:"escape,omitempty"`  // an unfinished escape sequence.
	Edited  bool   `json:"edited,omitempty"`  // the line might differ from Line and After.
	Pasting bool   `json:"pasting,omitempty"` // inside a bracketed paste.
	Pasted  bool   `json:"pasted,omitempty"`  // the line began with a paste.
	Safe    bool   `json:"safe,omitempty"`    // the last line needed no confirmation.
	Again   bool   `json:"again,omitempty"`   // the line is the last line, recalled from the history.
	Cwd     string `json:"cwd,omitempty"`     // the directory after the typed commands.
	Was     string `json:"was,omitempty"`     // the directory before the typed commands.
}

// Typing returns the state of a terminal session that runs command.
func Typing(command string) Typed {
	c := newChecker(&Rules{}, &Verdict{}, "")
	attempt(c.v, func() { c.script(command) })
	return Typed{Reader: strings.TrimPrefix(c.reader, "sh"), Other: c.reader == ""}
}

// IsShell reports whether the program that reads the text is a shell.
func (t Typed) IsShell() bool { return t.Reader == "" && !t.Other }

// AtPrompt returns the state for a shell. The caller must know that a shell is reading now.
func (t Typed) AtPrompt() Typed {
	t.Reader, t.Other = "", false
	return t
}

// Includes reports whether this state contains all the text in an earlier state.
func (t Typed) Includes(earlier Typed) bool {
	all := strings.Join([]string{t.Earlier, t.Pending, t.Line, t.After}, "\x00")
	return strings.Contains(all, earlier.Earlier) && strings.Contains(all, earlier.Pending) &&
		strings.Contains(all, earlier.Line) && strings.Contains(all, earlier.After)
}

// WithoutSince returns the state without the lines that were typed after an earlier state. It is
// for lines that no shell has read and that must not be stored, such as passwords.
func (t Typed) WithoutSince(earlier Typed) Typed {
	t.Reader, t.Earlier, t.Pending = earlier.Reader, earlier.Earlier, earlier.Pending
	t.Safe = earlier.Safe
	return t
}

// Type checks further bytes before they are sent, and returns the state after them. The verdict
// covers each command that these bytes complete.
func (r *Rules) Type(t Typed, start Start, data []byte) (Typed, Verdict) {
	var v Verdict
	if t.Cwd != "" && t.Was == start.Cwd { // the shell has not run the typed commands yet
		start.Cwd = t.Cwd
	} else {
		t.Cwd, t.Was = "", ""
	}
	for lines := 0; len(data) > 0; {
		n, entered := t.key(data)
		if entered {
			if lines++; lines > maxLines {
				if t.IsShell() {
					v.add(false, "cannot be checked: too many lines at once")
				}
				return Typed{Reader: t.Reader, Other: t.Other, Edited: true}, v
			}
			v.merge(r.enter(&t, &start))
		}
		data = data[n:]
	}
	if len(t.Line)+len(t.After)+len(t.Pending) > MaxCommand {
		if t.IsShell() {
			v.add(false, "cannot be checked: the line is too long")
		}
		t.Line, t.After, t.Pending, t.Edited = "", "", "", true
	}
	return t, v
}

// enter checks a line that is complete.
func (r *Rules) enter(t *Typed, start *Start) (v Verdict) {
	line, edited, again := t.Line+t.After, t.Edited, t.Again
	t.Line, t.After, t.Again = "", "", false
	t.Edited, t.Pasted = edited && t.Pasting, t.Pasting // the program gets all lines of a paste together
	text := t.Pending + line + "\n"
	switch {
	case !t.IsShell():
		return r.enterOther(t, *start, line)
	case again || t.Safe && line == "!!":
		return v
	case edited:
		v.add(false, "unknown keys edited the line: type it again")
	case usesHistory(line):
		v.add(false, "the line uses the history of the shell: %s", line)
	}
	if unfinished(text) {
		t.Pending, t.Safe = text, false
		return v
	}
	t.Pending = ""
	if strings.TrimSpace(text) == "" {
		return v
	}
	checked, cwd := r.check(t.Earlier, text, *start)
	v.merge(checked)
	if cwd != start.Cwd {
		if t.Was == "" {
			t.Was = start.Cwd
		}
		t.Cwd, start.Cwd = cwd, cwd
	}
	t.remember(text)
	t.Safe = !v.Dangerous && text[0] != ' ' && !strings.Contains(strings.ToLower(text), "hist")
	t.Reader = Typing(text).Reader
	return v
}

// enterOther checks a line that a program other than a shell reads. For an interpreter, it checks
// the line as code. In other cases it reports only harmful commands. Many programs pass the text
// after "!" to a shell.
func (r *Rules) enterOther(t *Typed, start Start, line string) (v Verdict) {
	if t.Reader != "" {
		c := newChecker(r, &v, start.Cwd)
		attempt(&v, func() { c.code(line) })
		if isIn("exit quit .exit", strings.Trim(line, " \t();")) {
			t.Reader = ""
		}
	}
	_, after, _ := strings.Cut(line, "!")
	if strings.HasPrefix(line, "/") {
		line = "" // probably a search in a pager or editor
	}
	for _, command := range []string{line, after} {
		if checked, _ := r.check(t.Earlier, command, start); checked.Harmful {
			v.merge(checked)
		}
	}
	return v
}

// unfinished reports whether a shell would wait for more lines.
func unfinished(text string) bool {
	if tooNested(text) || len(text) > MaxCommand {
		return false
	}
	trimmed := strings.TrimSuffix(text, "\n")
	slashes := len(trimmed) - len(strings.TrimRight(trimmed, `\`))
	_, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	var p syntax.ParseError // the parser does not report an unclosed here-document as incomplete
	return slashes%2 == 1 || syntax.IsIncomplete(err) ||
		errors.As(err, &p) && strings.HasPrefix(p.Text, "unclosed here-document")
}

var (
	quotedText = lazyregexp.New(`\\.|'[^']*'|"(?:[^"\\]|\\.)*"`)
	escaped    = lazyregexp.New(`\\.`)
	historyUse = lazyregexp.New(`^\^|(?:^|[^${\[])![^\s=(;"]`)
)

// usesHistory reports whether a shell would replace a "!" in the line with text from its history.
// Double quotes do not prevent this replacement.
func usesHistory(line string) bool {
	return historyUse().MatchString(quotedText().ReplaceAllStringFunc(line, func(q string) string {
		if q[0] != '"' {
			return ""
		}
		return escaped().ReplaceAllString(q, "")
	}))
}

// remember stores a line that might set values for later lines.
func (t *Typed) remember(text string) {
	if !strings.ContainsAny(text, "=(>") {
		return
	}
	if t.Earlier += text; len(t.Earlier) > maxEarlier {
		t.Earlier = text[max(0, len(text)-maxEarlier):]
	}
	if _, err := syntax.NewParser().Parse(strings.NewReader(t.Earlier), ""); err != nil {
		t.Earlier = ""
	}
}
