package danger

import (
	"errors"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Bounds of what is kept of what was typed, and of the lines of one call.
const (
	maxEarlier = 8 << 10
	maxLines   = 400
)

// Typed is what was typed to a program on a terminal, as far as it matters for what comes next.
// The zero value is a shell at its prompt. It is a plain value: a caller that does not send what
// was checked goes on with the value from before. As JSON it holds what was typed.
//
// A line is rebuilt from its keys. What they did is not known after those that search the history,
// or that are not the usual ones for editing: then the line needs confirmation when it is entered.
type Typed struct {
	Reader  string `json:"reader,omitempty"`  // the interpreter that reads, "" for a shell
	Other   bool   `json:"other,omitempty"`   // something else reads: an editor, a client of a database
	Earlier string `json:"earlier,omitempty"` // lines that set what later ones use
	Pending string `json:"pending,omitempty"` // lines that a shell waits for more of
	Line    string `json:"line,omitempty"`    // up to the cursor
	After   string `json:"after,omitempty"`   // behind the cursor
	Escape  string `json:"escape,omitempty"`  // the beginning of an escape sequence
	Quoted  bool   `json:"quoted,omitempty"`  // the next key is text, whatever it is
	Edited  bool   `json:"edited,omitempty"`  // the line may be another than what is known of it
	Pasting bool   `json:"pasting,omitempty"` // inside of a bracketed paste
	Pasted  bool   `json:"pasted,omitempty"`  // the line was begun by a paste of several
	Safe    bool   `json:"safe,omitempty"`    // the last line of the history needed no confirmation
	Again   bool   `json:"again,omitempty"`   // the line is that one
	Cwd     string `json:"cwd,omitempty"`     // where the shell should be by what was typed,
	Was     string `json:"was,omitempty"`     // while it still is here
}

// Typing gives the state of a session that begins with a command, by what reads there.
func Typing(command string) Typed {
	reader, shell := reads(command)
	return Typed{Reader: reader, Other: reader == "" && !shell}
}

// IsShell tells whether a shell reads.
func (t Typed) IsShell() bool { return t.Reader == "" && !t.Other }

// AtPrompt is the state when a shell is known to read now.
func (t Typed) AtPrompt() Typed {
	t.Reader, t.Other = "", false
	return t
}

// Keeps tells whether all text that is in an earlier state is in this one too.
func (t Typed) Keeps(earlier Typed) bool {
	all := strings.Join([]string{t.Earlier, t.Pending, t.Line, t.After}, "\x00")
	return strings.Contains(all, earlier.Earlier) && strings.Contains(all, earlier.Pending) &&
		strings.Contains(all, earlier.Line) && strings.Contains(all, earlier.After)
}

// Hiding is the state after lines that were not shown, as a password is not, and that no shell
// read: nothing is kept of them.
func (t Typed) Hiding(since Typed) Typed {
	t.Reader, t.Earlier, t.Pending, t.Safe = since.Reader, since.Earlier, since.Pending, since.Safe
	return t
}

// Type looks at further bytes that are typed. It gives the state for when they are sent, and what
// needs confirmation before that: each line that they enter, with the lines that it belongs to.
func (r *Rules) Type(t Typed, at Place, data []byte) (Typed, Verdict) {
	var v Verdict
	if t.Cwd != "" && t.Was == at.Cwd { // it has not done yet what was typed
		at.Cwd = t.Cwd
	} else {
		t.Cwd, t.Was = "", ""
	}
	for lines := 0; len(data) > 0; {
		n := t.key(data)
		if n == enter {
			n = 1
			if lines++; lines > maxLines {
				if t.IsShell() {
					v.add(false, "cannot be checked: too many lines at once")
				}
				return Typed{Reader: t.Reader, Other: t.Other, Edited: true}, v
			}
			v.merge(r.enter(&t, &at))
		}
		data = data[n:]
	}
	if len(t.Line)+len(t.After)+len(t.Pending) > MaxCommand {
		if t.IsShell() {
			v.add(false, "cannot be checked: a line that is too long")
		}
		t.Line, t.After, t.Pending, t.Edited = "", "", "", true
	}
	return t, v
}

// enter looks at the line that is entered.
func (r *Rules) enter(t *Typed, at *Place) (v Verdict) {
	line, edited, again := t.Line+t.After, t.Edited, t.Again
	t.Line, t.After, t.Again = "", "", false
	t.Edited, t.Pasted = edited && t.Pasting, t.Pasting // a paste is entered as a whole
	text := t.Pending + line + "\n"
	switch {
	case t.Other:
		return r.loosely(*t, *at, line)
	case t.Reader != "":
		return r.interpreted(t, *at, line)
	case again || t.Safe && line == "!!":
		return v
	case edited:
		v.add(false, "a line that was edited with keys of which it is not known what they do: type it anew")
	case historic(line):
		v.add(false, "a line that calls the history of the shell: %s", line)
	}
	if unfinished(text) {
		t.Pending, t.Safe = text, false
		return v
	}
	t.Pending = ""
	if strings.TrimSpace(text) == "" {
		return v
	}
	was := at.Cwd
	checked, cwd := r.check(t.Earlier, text, *at)
	v.merge(checked)
	if cwd != at.Cwd {
		if t.Was == "" {
			t.Was = was
		}
		t.Cwd, at.Cwd = cwd, cwd
	}
	t.remember(text)
	t.Safe = !v.Dangerous && text[0] != ' ' && !strings.Contains(strings.ToLower(text), "hist")
	t.Reader, _ = reads(text)
	return v
}

// interpreted looks at a line for an interpreter, with the lines before it.
func (r *Rules) interpreted(t *Typed, at Place, line string) (v Verdict) {
	text := t.Pending + line + "\n"
	r.match(&v, line)
	c := newChecker(r, &v, at)
	func() {
		defer c.guard(c.v)
		c.code(text)
	}()
	v.merge(r.loosely(*t, at, line))
	if t.Pending = text; len(text) > maxEarlier || v.Dangerous { // confirmed once
		t.Pending = ""
	}
	switch strings.Trim(line, " \t();") {
	case "exit", "quit", ".exit":
		t.Reader, t.Pending = "", ""
	}
	return v
}

// loosely looks at a text that may be a command or not, as what is behind a "!" may be one. Only
// harm counts.
func (r *Rules) loosely(t Typed, at Place, text string) (v Verdict) {
	_, after, _ := strings.Cut(text, "!")
	if strings.HasPrefix(text, "/") {
		text = "" // pagers and editors search for it
	}
	for _, command := range []string{text, after} {
		if w, _ := r.check(t.Earlier, command, at); w.Harms {
			v.merge(w)
		}
	}
	return v
}

// unfinished tells whether a shell would wait for more lines.
func unfinished(text string) bool {
	if nested(text) || len(text) > MaxCommand {
		return false
	}
	trimmed := strings.TrimSuffix(text, "\n")
	if slashes := len(trimmed) - len(strings.TrimRight(trimmed, `\`)); slashes%2 == 1 {
		return true
	}
	_, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	var p syntax.ParseError // the parser doesn't call a here-document without a line incomplete
	return syntax.IsIncomplete(err) || errors.As(err, &p) && strings.HasPrefix(p.Text, "unclosed here-document")
}

// historic tells whether a shell would put a line of its history in place of a "!".
func historic(line string) bool {
	single, double := false, false
	for i := 0; i < len(line); i++ {
		next := line[min(i+1, len(line)-1)]
		switch b := line[i]; {
		case b == '\'' && !double:
			single = !single
		case b == '"' && !single:
			double = !double
		case b == '\\' && !single:
			i++
		case b != '!' || single || i+1 == len(line):
		case strings.IndexByte(" \t\n=(;", next) >= 0, next == '"' && double:
		case i == 0 || strings.IndexByte("${[", line[i-1]) < 0:
			return true
		}
	}
	return strings.HasPrefix(line, "^")
}

// remember keeps a line that may set what later ones use.
func (t *Typed) remember(text string) {
	first, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	if strings.ContainsAny(text, "=(>") || strings.Contains(" set read mapfile tee eval unalias ", " "+first+" ") {
		if t.Earlier += text; len(t.Earlier) > maxEarlier {
			t.Earlier = text[max(0, len(text)-maxEarlier):]
		}
		if _, err := syntax.NewParser().Parse(strings.NewReader(t.Earlier), ""); err != nil {
			t.Earlier = ""
		}
	}
}

// reads gives the interpreter that reads what is typed after a command, or whether a shell does.
func reads(command string) (reader string, shell bool) {
	c := newChecker(&Rules{}, &Verdict{}, Place{})
	func() {
		defer c.guard(c.v)
		c.script(command, nil)
	}()
	return strings.TrimPrefix(c.reader, "sh"), c.reader == "sh"
}
