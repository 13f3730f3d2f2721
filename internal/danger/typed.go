package danger

import (
	"errors"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Bounds of what is kept of what was typed.
const (
	maxEarlier = 8 << 10  // lines that set something
	maxPending = 32 << 10 // lines of what is not finished
)

// Typed is what was typed to a program on a terminal, as far as it matters for what comes next. The zero value is a shell at its prompt; see [Typing] for
// others. It is a plain value: whoever does not send what was checked goes on with the value from before.
//
// What it knows, it knows of the bytes alone: not whether a shell is at its prompt, which program reads (see AtPrompt), or what a shell completes. So a line that was edited with
// cursor keys, the history or the tab key needs confirmation when it is entered, and so does one that calls the shell's history (!!). A shell that an other program
// starts is not seen, nor is the end of a program other than the end of an interpreter by Ctrl-D, exit() or quit().
type Typed struct {
	reader  string // the interpreter that reads lines, "" for a shell
	other   bool   // something else reads lines: an editor, a client of a database
	earlier string // lines that set what later ones use
	pending string // lines that a shell waits for more of
	line    string // the line so far
	escape  string // the beginning of an escape sequence
	quoted  bool   // the next key is text, whatever it is
	edited  bool   // the line may be another than what is known of it
	pasting bool   // inside of a bracketed paste
	pasted  bool   // the line was begun by a paste of several, which keys may change still
}

// Typing gives the state of a session that begins with a command, by what reads there: a shell, an interpreter, or something else, such as an editor, of which any line
// may be a command or not.
func Typing(command string) Typed {
	reader, shell := reads(command)
	return Typed{reader: reader, other: reader == "" && !shell}
}

// IsShell tells whether a shell reads.
func (t Typed) IsShell() bool { return t.reader == "" && !t.other }

// AtPrompt is the state when a shell is known to read now, whatever was thought to.
func (t Typed) AtPrompt() Typed {
	t.reader, t.other = "", false
	return t
}

// Keeps tells whether all text that is in an earlier state is in this one too.
func (t Typed) Keeps(earlier Typed) bool {
	all := strings.Join([]string{t.earlier, t.pending, t.line}, "\x00")
	return strings.Contains(all, earlier.earlier) && strings.Contains(all, earlier.pending) && strings.Contains(all, earlier.line)
}

// Hiding is the state after lines that something read that is no shell and does not show them, as it does with a password: of those that were entered since an earlier
// state nothing is kept.
func (t Typed) Hiding(since Typed) Typed {
	t.reader, t.earlier, t.pending = since.reader, since.earlier, since.pending
	return t
}

// Type looks at further bytes that are typed. It gives the state for when they are sent, and what needs confirmation before that: each line as it is entered, together
// with the lines before it that it belongs to.
func (r *Rules) Type(t Typed, data []byte) (Typed, Verdict) {
	var v Verdict
	lines := 0
	for len(data) > 0 {
		n := t.key(data)
		if n == enter {
			if lines++; lines > maxLines {
				v.unparsed("too many lines at once")
				return Typed{reader: t.reader, other: t.other, edited: true}, v
			}
			v.merge(r.enter(&t))
			n = 1
		}
		data = data[n:]
	}
	if len(t.line)+len(t.pending) > MaxCommand {
		v.unparsed("a line that is too long")
		t.line, t.pending, t.edited = "", "", true
	}
	return t, v
}

// maxLines bounds the lines of one call, each of which may be looked at together with those before it.
const maxLines = 400

func (v *Verdict) merge(other Verdict) {
	v.Unparsed = v.Unparsed || other.Unparsed
	for _, m := range other.Matches {
		v.add("%s", m)
	}
	v.Dangerous = v.Dangerous || other.Dangerous
}

// enter looks at the line that is entered, alone and as the end of what a shell waits for more of: nobody here can know which of both the shell sees.
func (r *Rules) enter(t *Typed) (v Verdict) {
	line := t.line
	t.line = ""
	if t.reader == "" && !t.other {
		if t.edited {
			v.add("a line that was edited with keys of which it is not known what they do (cursor, history, completion): type it anew")
		}
		if historic(line) {
			v.add("a line that calls the history of the shell: %s", line)
		}
	}
	t.edited = t.edited && t.pasting // a paste is entered as a whole, after its last line
	t.pasted = t.pasting
	text := t.pending + line + "\n"
	if t.reader != "" {
		v.merge(r.interpreted(t, line, text))
		return v
	}
	if t.pending != "" || t.other {
		v.merge(r.loosely(t, line))
	}
	if unfinished(text) {
		if !t.other {
			r.match(&v, line)
		}
		if t.pending = text; len(text) > maxPending {
			t.pending = ""
			if !t.other {
				v.unparsed("lines that do not end")
			}
		}
		return v
	}
	t.pending = ""
	if t.other {
		v.merge(r.loosely(t, text))
		return v
	}
	v.merge(r.check(t.earlier, nil, text))
	t.remember(text)
	t.reader, _ = reads(text)
	return v
}

// interpreted looks at a line for an interpreter, with the lines before it, which may say what this one uses.
func (r *Rules) interpreted(t *Typed, line, text string) (v Verdict) {
	p := interpreters[t.reader]
	v = r.check("", &p, text)
	v.merge(r.loosely(t, line))
	if t.pending = text; len(text) > maxPending/4 || v.Dangerous { // what was confirmed once is not asked for with each line that follows
		t.pending = ""
	}
	switch strings.Trim(line, " \t();") {
	case "exit", "quit", ".exit":
		t.reader, t.pending = "", ""
	}
	return v
}

// loosely looks at a text that may be a command, or something else. What comes after a "!" is one in many programs.
func (r *Rules) loosely(t *Typed, text string) (v Verdict) {
	_, after, _ := strings.Cut(text, "!")
	for _, command := range []string{text, after} {
		if w := r.check(t.earlier, nil, command); !w.Unparsed {
			v.merge(w)
		} else {
			r.match(&v, command)
		}
	}
	return v
}

// unfinished tells whether a shell would wait for more lines.
func unfinished(text string) bool {
	if shallow(text) != nil {
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
	if strings.HasPrefix(line, "^") {
		return true
	}
	single := false
	for i := 0; i < len(line); i++ {
		switch b := line[i]; {
		case b == '\'':
			single = !single
		case b == '\\' && !single:
			i++
		case b == '!' && !single && i+1 < len(line) && strings.IndexByte(" \t\n=(;", line[i+1]) < 0 && !(i > 0 && (line[i-1] == '$' || line[i-1] == '{' || line[i-1] == '[')) && !(line[i+1] == '"' && strings.Count(line[:i], `"`)%2 == 1):
			return true
		}
	}
	return false
}

// remember keeps a line that sets what later ones use. What is longer than is kept is forgotten from its beginning: then a variable is one that the text does not set.
func (t *Typed) remember(text string) {
	file, err := parseShort(text)
	if err != nil {
		return
	}
	sets := false
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign, *syntax.FuncDecl, *syntax.DeclClause, *syntax.Redirect:
			sets = true
		case *syntax.CallExpr:
			if len(n.Args) > 0 {
				switch n.Args[0].Lit() {
				case "alias", "cd", "pushd", "set", "read", "mapfile", "printf", "eval", "source", ".", "tee", "export", "declare", "typeset", "local", "readonly", "command", "builtin":
					sets = true
				}
			}
		}
		return !sets
	})
	if !sets {
		return
	}
	t.earlier += text
	for len(t.earlier) > maxEarlier {
		_, rest, _ := strings.Cut(t.earlier, "\n")
		t.earlier = rest
	}
	if _, err := parseShort(t.earlier); err != nil { // the beginning of something was cut off
		t.earlier = ""
	}
}

func parseShort(text string) (*syntax.File, error) {
	if err := shallow(text); err != nil {
		return nil, err
	}
	return syntax.NewParser().Parse(strings.NewReader(text), "")
}

// backspace removes the last character.
func backspace(s string) string {
	_, n := utf8.DecodeLastRuneInString(s)
	return s[:len(s)-n]
}
