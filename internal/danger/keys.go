package danger

import (
	"bytes"
	"strings"
)

// enter is what key gives for a line that is entered.
const enter = -1

// maxEscape bounds escape sequences: what is longer is none.
const maxEscape = 32

// key takes the first key of data, and says how many bytes that is.
func (t *Typed) key(data []byte) int {
	if t.escape != "" {
		t.sequence(data[0])
		return 1
	}
	b := data[0]
	if t.quoted {
		t.quoted = false
		t.line += string(b)
		return 1
	}
	switch {
	case b == '\r' || b == '\n' || b == 0x0f && !t.pasting: // Ctrl-O enters a line too
		return enter
	case b >= ' ' && b != 0x7f:
		n := bytes.IndexFunc(data, func(r rune) bool { return r < ' ' || r == 0x7f })
		if n < 0 {
			n = len(data)
		}
		t.line += string(data[:n])
		return n
	case b == 0x1b:
		t.escape = "\x1b"
	case t.pasting: // text, except for what ends the paste
		t.line += string(b)
	default:
		t.control(b)
	}
	return 1
}

// control does what a control key does to the line.
func (t *Typed) control(b byte) {
	if t.pasted && (b == 0x7f || b == 0x08 || b == 0x15 || b == 0x17) {
		t.edited = true // reaches into lines that were pasted before this one
	}
	switch b {
	case 0x7f, 0x08: // backspace
		t.line = backspace(t.line)
	case 0x15: // Ctrl-U
		t.line = ""
	case 0x17: // Ctrl-W
		word := strings.TrimRight(t.line, " \t")
		t.line = word[:strings.LastIndexAny(word, " \t")+1]
	case 0x03, 0x1c: // Ctrl-C, Ctrl-\
		*t = Typed{reader: t.reader, other: t.other, earlier: t.earlier}
	case 0x04: // Ctrl-D: the end of what reads, where the line is empty
		if t.line == "" && !t.edited {
			*t = Typed{other: t.other, earlier: t.earlier}
		} else {
			t.edited = true
		}
	case 0x16: // Ctrl-V
		t.quoted = true
	case 0x0c, 0x11, 0x13, 0x07: // Ctrl-L, Ctrl-Q, Ctrl-S, Ctrl-G change nothing
	default: // tab, history, cursor and whatever else
		t.edited = true
	}
}

// sequence takes a byte of an escape sequence.
func (t *Typed) sequence(b byte) {
	t.escape += string(rune(b))
	switch {
	case len(t.escape) == 2 && (b == '[' || b == 'O'):
		return
	case len(t.escape) > 2 && t.escape[1] == '[' && (b < 0x40 || b > 0x7e) && len(t.escape) < maxEscape:
		return
	}
	sequence := t.escape
	t.escape = ""
	switch sequence {
	case "\x1b[200~":
		t.pasting = true
	case "\x1b[201~":
		t.pasting = false
	case "\x1b[I", "\x1b[O": // the window got or lost the focus
	default:
		t.edited = true
		if b == '\r' || b == '\n' { // nothing of what Meta-Enter does is known, but it may enter the line
			t.line += "\n"
		}
	}
}
