package danger

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// literal reads unquoted text: a backslash takes away what the next character means, and what globs matches anything.
func literal(s string) string {
	if !strings.ContainsAny(s, `\*?[`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if i++; i < len(s) && s[i] != '\n' {
				b.WriteByte(s[i])
			}
		case '*', '?', '[':
			i += glob(&b, s[i:]) - 1
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// globs marks what globs in the text of an unquoted expansion.
func globs(s string) string {
	if !strings.ContainsAny(s, `*?[`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		i += glob(&b, s[i:])
	}
	return b.String()
}

// glob writes the first element of a pattern, and says how long that is.
func glob(b *strings.Builder, s string) int {
	switch s[0] {
	case '*':
		b.WriteByte(anyText)
	case '?':
		b.WriteByte(anyByte)
	case '[':
		for i := 2; i < len(s) && s[i] != '/'; i++ {
			if s[i] == ']' && !(i == 2 && (s[1] == '!' || s[1] == '^')) {
				b.WriteByte(anyByte)
				return i + 1
			}
		}
		b.WriteByte('[')
	default:
		b.WriteByte(s[0])
	}
	return 1
}

// unescape takes backslashes away where they stand before one of these characters; a backslash before a line break goes with it.
func unescape(s, special string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte(special, s[i+1]) >= 0 {
			if i++; s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// escapes are the one-letter escapes of $'…', echo -e and printf.
var escapes = map[byte]string{
	'a': "\a", 'b': "\b", 'e': "\x1b", 'E': "\x1b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v", '\\': `\`, '\'': "'", '"': `"`, '?': "?",
}

// ansiC reads the escapes of $'…'.
func ansiC(s string) string { return escaped(s, false) }

// escaped reads the escapes of $'…', and those of echo -e and printf, whose octal numbers may begin with a 0.
func escaped(s string, echo bool) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		digits, base, most := s[i:], 8, 3
		switch s[i] {
		case 'x':
			digits, base, most = strings.TrimPrefix(s[i+1:], "{"), 16, 2
		case 'u':
			digits, base, most = s[i+1:], 16, 4
		case 'U':
			digits, base, most = s[i+1:], 16, 8
		case 'c':
			if echo {
				return b.String()
			}
			if i+1 < len(s) {
				i++
				b.WriteByte(s[i] & 0x1f)
			}
			continue
		case '0':
			if echo {
				most = 4
			}
		}
		n := 0
		for n < most && n < len(digits) && isDigit(digits[n], base) {
			n++
		}
		if n == 0 {
			if text, ok := escapes[s[i]]; ok {
				b.WriteString(text)
			} else {
				b.WriteByte('\\')
				b.WriteByte(s[i])
			}
			continue
		}
		v, _ := strconv.ParseUint(digits[:n], base, 32)
		if s[i] == 'u' || s[i] == 'U' {
			b.WriteString(string(utf8.AppendRune(nil, rune(v))))
		} else {
			b.WriteByte(byte(v))
		}
		i = len(s) - len(digits) + n - 1
		if strings.HasPrefix(s[i+1:], "}") && base == 16 && most == 2 && strings.HasSuffix(s[:len(s)-len(digits)], "{") {
			i++
		}
	}
	return b.String()
}

func isDigit(b byte, base int) bool {
	return b >= '0' && b < '8' || base == 16 && (b == '8' || b == '9' || b|0x20 >= 'a' && b|0x20 <= 'f')
}
