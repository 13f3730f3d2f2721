package ptymcp

import (
	"fmt"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// named contains the sequences of named keys, as xterm sends them in normal mode.
var named = map[string]string{
	"enter": "\r", "return": "\r", "tab": "\t", "backtab": "\x1b[Z", "space": " ", "escape": "\x1b", "esc": "\x1b", "backspace": "\x7f",
	"up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D", "home": "\x1b[H", "end": "\x1b[F",
	"insert": "\x1b[2~", "delete": "\x1b[3~", "pageup": "\x1b[5~", "pagedown": "\x1b[6~",
	"f1": "\x1bOP", "f2": "\x1bOQ", "f3": "\x1bOR", "f4": "\x1bOS", "f5": "\x1b[15~", "f6": "\x1b[17~", "f7": "\x1b[18~", "f8": "\x1b[19~",
	"f9": "\x1b[20~", "f10": "\x1b[21~", "f11": "\x1b[23~", "f12": "\x1b[24~",
}

// modifiers contains one bit per modifier. Control sequences contain the sum of the bits plus one.
var modifiers = map[string]int{"shift": 1, "alt": 2, "meta": 2, "ctrl": 4, "control": 4}

// maxKeys is the maximum number of keys per call.
const maxKeys = 1000

// sequences returns the input for a list of keys. A key is a named key or a single character. It
// can have modifiers, as in "ctrl-c", "alt-b", "shift-tab" or "ctrl-shift-up". The parameter
// application says that the cursor keys are in application mode.
func sequences(keys []string, application bool) (string, error) {
	if len(keys) > maxKeys {
		return "", fault.Newf(fault.Invalid, "%d keys: at most %d", len(keys), maxKeys)
	}
	var b strings.Builder
	for _, key := range keys {
		s, ok := sequence(key, application)
		if !ok {
			return "", fault.Newf(fault.Invalid, "unknown key %.40q", key).
				WithHint("enter, tab, escape, backspace, up, down, left, right, home, end, pageup, pagedown, insert, delete, f1 to f12, a character; ctrl-, alt-, shift- before it")
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

// sequence returns the input for one key.
func sequence(key string, application bool) (string, bool) {
	modifier, name := 0, key
	for {
		before, after, found := strings.Cut(name, "-")
		m, known := modifiers[strings.ToLower(before)]
		if !found || !known || after == "" {
			break
		}
		modifier |= m
		name = after
	}
	if s, ok := named[strings.ToLower(name)]; ok {
		if application && modifier == 0 && len(s) == 3 && strings.Contains("ABCDHF", s[2:]) { // arrows, home, end
			return "\x1bO" + s[2:], true
		}
		return modified(s, strings.ToLower(name), modifier)
	}
	r := []rune(name)
	if len(r) != 1 || r[0] < ' ' || r[0] == 0x7f {
		return "", false
	}
	return character(r[0], modifier)
}

// character returns the input for a character with modifiers.
func character(r rune, modifier int) (string, bool) {
	text := string(r)
	if modifier&1 != 0 {
		text = strings.ToUpper(text)
	}
	if modifier&4 != 0 {
		switch c := strings.ToUpper(text)[0]; {
		case r >= 0x80:
			return "", false
		case c >= '@' && c <= '_': // includes letters
			text = string(rune(c - '@'))
		case c == ' ':
			text = "\x00"
		case c == '?':
			text = "\x7f"
		default:
			return "", false
		}
	}
	if modifier&2 != 0 {
		text = "\x1b" + text
	}
	return text, true
}

// modified returns the input for a named key with modifiers.
func modified(s, name string, modifier int) (string, bool) {
	switch {
	case modifier == 0:
		return s, true
	case name == "tab" && modifier == 1:
		return named["backtab"], true
	case name == "space" && modifier&4 != 0:
		return character(' ', modifier)
	case len(s) == 1 && modifier == 2:
		return "\x1b" + s, true
	case len(s) == 1 || name == "backtab":
		return "", false
	case s[len(s)-1] == '~':
		return fmt.Sprintf("%s;%d~", s[:len(s)-1], modifier+1), true
	}
	return fmt.Sprintf("\x1b[1;%d%c", modifier+1, s[len(s)-1]), true // cursor keys, home, end, f1 to f4
}
