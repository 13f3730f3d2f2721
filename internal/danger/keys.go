package danger

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// enter is the result of key for a line that is entered.
const enter = -1

// maxEscape bounds escape sequences, in bytes.
const maxEscape = 32

// key takes the first key of data, and says how many bytes that is.
func (t *Typed) key(data []byte) int {
	b := data[0]
	switch {
	case t.Escape != "":
		t.sequence(b)
	case t.Quoted:
		t.Quoted = false
		t.Line += string(b)
	case b == '\r' || b == '\n' || b == 0x0f && !t.Pasting: // Ctrl-O enters a line too
		return enter
	case b >= ' ' && b != 0x7f:
		n := bytes.IndexFunc(data, func(r rune) bool { return r < ' ' || r == 0x7f })
		if n < 0 {
			n = len(data)
		}
		t.Edited, t.Again = t.Edited || t.Again, false
		t.Line += string(data[:n])
		return n
	case b == 0x1b:
		t.Escape = "\x1b"
	case t.Pasting: // text, except for the end of the paste
		t.Line += string(b)
	default:
		t.press(string(b))
	}
	return 1
}

// sequence takes a byte of an escape sequence.
func (t *Typed) sequence(b byte) {
	t.Escape += string(rune(b))
	switch {
	case len(t.Escape) == 2 && (b == '[' || b == 'O'):
		return
	case len(t.Escape) > 2 && t.Escape[1] == '[' && (b < 0x40 || b > 0x7e) && len(t.Escape) < maxEscape:
		return
	}
	key := strings.Replace(t.Escape, "O", "[", 1)
	t.Escape = ""
	t.press(key)
	if b == '\r' || b == '\n' { // nobody knows what Meta-Enter does, but it may enter the line
		t.Line += "\n"
	}
}

// press does what a key does that is not text. Cursor keys have two forms, of which "\x1bO" counts
// as "\x1b[".
func (t *Typed) press(key string) {
	again := t.Again
	if t.Pasted && strings.Contains("\x7f\b\x15\x17", key) {
		t.Edited = true // it reaches into lines that were pasted before this one
	}
	switch key {
	case "\x7f", "\b": // backspace
		t.Line = t.Line[:lastRune(t.Line)]
	case "\x17": // Ctrl-W
		word := strings.TrimRight(t.Line, " \t")
		t.Line = word[:strings.LastIndexAny(word, " \t")+1]
	case "\x15": // Ctrl-U, of which shells differ in what is behind the cursor
		t.Line, t.Again, t.Edited = "", false, t.After != "" || t.Pasted
	case "\x0b": // Ctrl-K
		t.After = ""
	case "\x01", "\x1b[H", "\x1b[1~": // home
		t.Line, t.After = "", t.Line+t.After
	case "\x05", "\x1b[F", "\x1b[4~": // end
		t.Line, t.After = t.Line+t.After, ""
	case "\x02", "\x1b[D": // left
		n := lastRune(t.Line)
		t.Line, t.After = t.Line[:n], t.Line[n:]+t.After
	case "\x06", "\x1b[C": // right
		_, n := utf8.DecodeRuneInString(t.After)
		t.Line, t.After = t.Line+t.After[:n], t.After[n:]
	case "\x10", "\x1b[A": // up: the last line of the history in place of an empty one
		t.Again = t.Safe && t.Line+t.After+t.Pending == "" && !t.Edited && !t.Again
		t.Edited = t.Edited || !t.Again
	case "\x04", "\x1b[3~": // Ctrl-D is the end of what reads, if the line is empty
		if key == "\x04" && t.Line+t.After == "" && !t.Edited && !t.Again {
			*t = Typed{Other: t.Other, Earlier: t.Earlier}
		}
		_, n := utf8.DecodeRuneInString(t.After)
		t.After = t.After[n:]
	case "\t": // a shell completes the word: some more of it
		t.Line, t.Edited = t.Line+"*", t.Edited || t.After != ""
	case "\x03", "\x1c": // Ctrl-C, Ctrl-\
		*t = Typed{Reader: t.Reader, Other: t.Other, Earlier: t.Earlier, Safe: t.Safe && t.Pending == "",
			Cwd: t.Cwd, Was: t.Was}
	case "\x16": // Ctrl-V
		t.Quoted = true
	case "\x1b[200~", "\x1b[201~":
		t.Pasting = key == "\x1b[200~"
	case "\x0c", "\x11", "\x13", "\x07", "\x1b[I", "\x1b[[": // redrawing, flow control, the window's focus
	default: // the history, text that was cut, and others
		t.Edited = true
	}
	if again && t.Again {
		t.Edited, t.Again = true, false
	}
}

// lastRune is where the last character of a text begins.
func lastRune(s string) int {
	_, n := utf8.DecodeLastRuneInString(s)
	return len(s) - n
}
