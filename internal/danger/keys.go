package danger

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// enter is what key gives for a line that is entered.
const enter = -1

// maxEscape bounds escape sequences: what is longer is none.
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
	case t.Pasting: // text, except for what ends the paste
		t.Line += string(b)
	default:
		t.control(b)
	}
	return 1
}

// control does what a control key does to the line.
func (t *Typed) control(b byte) {
	if t.Pasted && (b == 0x7f || b == 0x08 || b == 0x15 || b == 0x17) {
		t.Edited = true // reaches into lines that were pasted before this one
	}
	switch b {
	case 0x7f, 0x08: // backspace
		t.Line = backspace(t.Line)
	case 0x15: // Ctrl-U, of which shells differ in what is behind the cursor
		t.Edited = t.After != "" || t.Edited && t.Pasted
		t.Line, t.Again = "", false
	case 0x17: // Ctrl-W
		word := strings.TrimRight(t.Line, " \t")
		t.Line = word[:strings.LastIndexAny(word, " \t")+1]
	case 0x0b: // Ctrl-K
		t.After = ""
	case 0x01: // Ctrl-A
		t.Line, t.After = "", t.Line+t.After
	case 0x05: // Ctrl-E
		t.Line, t.After = t.Line+t.After, ""
	case 0x02: // Ctrl-B
		t.left()
	case 0x06: // Ctrl-F
		t.right()
	case 0x10: // Ctrl-P
		t.up()
	case 0x09: // a shell completes the word: some more of it
		if t.Line += "*"; t.After != "" {
			t.Edited = true
		}
	case 0x03, 0x1c: // Ctrl-C, Ctrl-\
		*t = Typed{Reader: t.Reader, Other: t.Other, Earlier: t.Earlier, Safe: t.Safe && t.Pending == "", Cwd: t.Cwd, Was: t.Was}
	case 0x04: // Ctrl-D: the end of what reads, if the line is empty
		if t.Line+t.After == "" && !t.Edited && !t.Again {
			*t = Typed{Other: t.Other, Earlier: t.Earlier}
		} else {
			t.delete()
		}
	case 0x16: // Ctrl-V
		t.Quoted = true
	case 0x0c, 0x11, 0x13, 0x07: // Ctrl-L, Ctrl-Q, Ctrl-S, Ctrl-G change nothing
	default: // the history, what was cut, and whatever else
		t.Edited = true
	}
	if b != 0x10 && t.Again {
		t.Edited, t.Again = true, false
	}
}

func (t *Typed) left() {
	rest := backspace(t.Line)
	t.Line, t.After = rest, t.Line[len(rest):]+t.After
}

func (t *Typed) right() {
	_, n := utf8.DecodeRuneInString(t.After)
	t.Line, t.After = t.Line+t.After[:n], t.After[n:]
}

func (t *Typed) delete() {
	_, n := utf8.DecodeRuneInString(t.After)
	t.After = t.After[n:]
}

// up takes the last line of the history in place of an empty one.
func (t *Typed) up() {
	again := t.Safe && t.Line+t.After+t.Pending == "" && !t.Edited && !t.Again
	t.Again, t.Edited = again, t.Edited || !again
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
	sequence := t.Escape
	t.Escape = ""
	if t.Again {
		t.Edited, t.Again = true, false
	}
	switch strings.Replace(sequence, "O", "[", 1) {
	case "\x1b[200~":
		t.Pasting = true
	case "\x1b[201~":
		t.Pasting = false
	case "\x1b[A":
		t.up()
	case "\x1b[D":
		t.left()
	case "\x1b[C":
		t.right()
	case "\x1b[H", "\x1b[1~":
		t.Line, t.After = "", t.Line+t.After
	case "\x1b[F", "\x1b[4~":
		t.Line, t.After = t.Line+t.After, ""
	case "\x1b[3~":
		t.delete()
	case "\x1b[I": // the window got the focus
	case "\x1b[[": // or lost it
	default:
		t.Edited = true
		if b == '\r' || b == '\n' { // what Meta-Enter does is not known, but it may enter the line
			t.Line += "\n"
		}
	}
}

// backspace removes the last character.
func backspace(s string) string {
	_, n := utf8.DecodeLastRuneInString(s)
	return s[:len(s)-n]
}
