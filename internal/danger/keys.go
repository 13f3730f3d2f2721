package danger

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// maxEscape is the maximum length of an escape sequence, in bytes.
const maxEscape = 32

// key processes the first key in data. It returns the key's length in bytes, and whether the key
// enters the line.
func (t *Typed) key(data []byte) (n int, entered bool) {
	b := data[0]
	switch {
	case b == 0x03 || b == 0x1c: // Ctrl-C, Ctrl-\: the terminal handles them before the program
		t.press(string(b))
	case t.Escape != "":
		t.sequence(b)
	case b == '\r' || b == '\n' || b == 0x0f && !t.Pasting: // Ctrl-O enters the line too
		return 1, true
	case b >= ' ' && b != 0x7f:
		n = bytes.IndexFunc(data, func(r rune) bool { return r < ' ' || r == 0x7f })
		if n < 0 {
			n = len(data)
		}
		t.Edited, t.Again = t.Edited || t.Again, false
		t.Line += string(data[:n])
		return n, false
	case b == 0x1b:
		t.Escape = "\x1b"
	case t.Pasting: // keys count as text until the paste ends
		t.Line += string(b)
	default:
		t.press(string(b))
	}
	return 1, false
}

// sequence processes one byte of an escape sequence.
func (t *Typed) sequence(b byte) {
	t.Escape += string(rune(b))
	n := len(t.Escape)
	more := n == 2 && (b == '[' || b == 'O') ||
		n > 2 && n < maxEscape && t.Escape[1] == '[' && (b < 0x40 || b > 0x7e)
	if more {
		return
	}
	key := strings.Replace(t.Escape, "O", "[", 1) // cursor keys have two encodings
	t.Escape = ""
	t.press(key)
	if b == '\r' || b == '\n' { // some programs enter the line on Meta-Enter
		t.Line += "\n"
	}
}

// press processes a key that is not text.
func (t *Typed) press(key string) {
	again := t.Again
	if t.Pasted && strings.Contains("\x7f\b\x15\x17", key) {
		t.Edited = true // the key might change earlier lines of the paste
	}
	switch key {
	case "\x7f", "\b": // backspace
		t.Line = t.Line[:lastRune(t.Line)]
	case "\x17": // Ctrl-W
		word := strings.TrimRight(t.Line, " \t")
		t.Line = word[:strings.LastIndexAny(word, " \t")+1]
	case "\x15": // Ctrl-U: some shells also remove the text after the cursor
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
	case "\x10", "\x1b[A": // up: replaces an empty line with the last line of the history
		t.Again = t.Safe && t.Line+t.After+t.Pending == "" && !t.Edited && !t.Again
		t.Edited = t.Edited || !t.Again
	case "\x04", "\x1b[3~": // delete; if the line is empty, Ctrl-D ends the program
		if key == "\x04" && t.Line+t.After == "" && !t.Edited && !t.Again {
			*t = Typed{Other: t.Other, Earlier: t.Earlier}
		}
		_, n := utf8.DecodeRuneInString(t.After)
		t.After = t.After[n:]
	case "\t": // the shell completes the word in an unknown way
		t.Line, t.Edited = t.Line+"*", t.Edited || t.After != ""
	case "\x1a": // Ctrl-Z: a terminal drops an unread line, a shell keeps its line
		t.Edited = t.Edited || t.Line+t.After+t.Pending != ""
	case "\x03", "\x1c":
		*t = Typed{Reader: t.Reader, Other: t.Other, Earlier: t.Earlier,
			Safe: t.Safe && t.Pending == "", Cwd: t.Cwd, Was: t.Was}
	case "\x1b[200~", "\x1b[201~":
		t.Pasting = key == "\x1b[200~"
	case "\x0c", "\x11", "\x13", "\x07", "\x1b[I", "\x1b[[": // redraw, flow control, focus
	default: // keys that search the history, insert text that was cut, and others
		t.Edited = true
	}
	if again && t.Again {
		t.Edited, t.Again = true, false
	}
}

// lastRune returns the offset of the last character of s.
func lastRune(s string) int {
	_, n := utf8.DecodeLastRuneInString(s)
	return len(s) - n
}
