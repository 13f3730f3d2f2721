package ignore

import "strings"

// classes are git's names for classes of characters, as ranges.
var classes = map[string]string{
	"alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": ` \t`, "digit": "0-9", "lower": "a-z", "upper": "A-Z", "space": " \t\n\v\f\r", "xdigit": "0-9a-fA-F",
	"cntrl": "\x01-\x1f\x7f", "graph": "\x21-\x7e", "print": "\x20-\x7e", "punct": "\x21-\x2f:-@\x5b-`{-~",
}

// translate writes a pattern of git's as one of package doublestar. It is false for one that
// matches nothing.
//
// They differ in this: braces are alternatives in doublestar and characters in git; a class may begin
// with "]" or have named classes in git; "a/**" is what is in a, not a itself; and stars may be more
// than two.
func translate(git string) (pattern string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(git); {
		switch c := git[i]; c {
		case '\\':
			if i+1 == len(git) {
				return "", false
			}
			b.WriteString(git[i : i+2])
			i += 2
		case '*':
			n := len(git) - i - len(strings.TrimLeft(git[i:], "*"))
			b.WriteString(stars(git, i, i+n))
			i += n
		case '{', '}':
			b.WriteByte('\\')
			b.WriteByte(c)
			i++
		case '[':
			n, ok := class(&b, git[i:])
			if !ok {
				return "", false
			}
			i += n
		default:
			b.WriteByte(c)
			i++
		}
	}
	pattern = b.String()
	if strings.HasSuffix(pattern, "/**") {
		pattern += "/*"
	}
	return pattern, true
}

// stars are those from one offset to another: two where they stand for any folders, else one.
func stars(git string, from, to int) string {
	if to-from > 1 && (from == 0 || git[from-1] == '/') && (to == len(git) || git[to] == '/') {
		return "**"
	}
	return "*"
}

// class writes the class of characters that a text begins with, and gives its length. It is false
// where the class has no end.
func class(b *strings.Builder, git string) (length int, ok bool) {
	b.WriteByte('[')
	i := 1
	if i < len(git) && (git[i] == '!' || git[i] == '^') {
		b.WriteByte('^')
		i++
	}
	for first := true; i < len(git); first = false {
		switch {
		case git[i] == ']' && !first:
			b.WriteByte(']')
			return i + 1, true
		case strings.HasPrefix(git[i:], "[:"):
			name, _, found := strings.Cut(git[i+2:], ":]")
			ranges, known := classes[name]
			if !found || !known {
				return 0, false
			}
			writeRanges(b, ranges)
			i += len(name) + 4
		case git[i] == '\\' && i+1 < len(git):
			b.WriteString(git[i : i+2])
			i += 2
		case git[i] == '-':
			b.WriteByte('-')
			i++
		default:
			writeMember(b, git[i])
			i++
		}
	}
	return 0, false
}

// writeRanges writes ranges such as "a-z0-9", with what has a meaning in a class escaped.
func writeRanges(b *strings.Builder, ranges string) {
	for i := range len(ranges) {
		if ranges[i] == '-' {
			b.WriteByte('-')
			continue
		}
		writeMember(b, ranges[i])
	}
}

func writeMember(b *strings.Builder, c byte) {
	if strings.IndexByte(`[]\^!{},`, c) >= 0 {
		b.WriteByte('\\')
	}
	b.WriteByte(c)
}
