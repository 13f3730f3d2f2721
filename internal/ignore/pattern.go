package ignore

import "strings"

// classes maps each POSIX character class to its ranges.
var classes = map[string]string{
	"alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": ` \t`, "digit": "0-9", "lower": "a-z", "upper": "A-Z", "space": " \t\n\v\f\r", "xdigit": "0-9a-fA-F",
	"cntrl": "\x01-\x1f\x7f", "graph": "\x21-\x7e", "print": "\x20-\x7e", "punct": "\x21-\x2f:-@\x5b-`{-~",
}

// translate converts a git pattern to the syntax of package doublestar. If the pattern matches
// nothing, ok is false.
//
// The syntax of git differs in the following ways:
//   - Braces are ordinary characters.
//   - A class can begin with "]" and can contain named classes. It matches no slash.
//   - "a/**" matches the content of a but not a itself.
//   - More than two stars can follow each other.
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

// stars returns the doublestar pattern for the stars between two offsets. It returns "**" if the
// stars match any number of directories, and "*" otherwise.
func stars(git string, from, to int) string {
	if to-from > 1 && (from == 0 || git[from-1] == '/') && (to == len(git) || git[to] == '/') {
		return "**"
	}
	return "*"
}

// class writes the character class at the start of a pattern, and returns its length in the
// pattern. If the class has no end, ok is false.
func class(b *strings.Builder, git string) (length int, ok bool) {
	b.WriteByte('[')
	i := 1
	if i < len(git) && (git[i] == '!' || git[i] == '^') {
		b.WriteString("^/-/") // a class never matches a slash
		i++
	}
	var begins bool // the last member can begin a range
	var ends bool   // the next member ends a range
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
			begins, ends = false, false
		case git[i] == '-':
			b.WriteByte('-')
			i++
			ends = begins && !strings.HasPrefix(git[i:], "]")
			begins = !ends
		default:
			if git[i] == '\\' && i+1 < len(git) {
				i++
			}
			member := git[i]
			i++
			if member == '/' {
				member = besideSlash(strings.HasPrefix(git[i:], "-") && !strings.HasPrefix(git[i:], "-]"), ends)
			}
			writeMember(b, member)
			begins, ends = !ends, false
		}
	}
	return 0, false
}

// besideSlash returns the member of a class that replaces a slash. At the beginning or the end of a
// range, it is the neighbour of the slash. Otherwise it is a byte that no name contains.
func besideSlash(begins, ends bool) byte {
	switch {
	case ends:
		return '/' - 1
	case begins:
		return '/' + 1
	}
	return 0
}

// writeRanges writes ranges such as "a-z0-9". It escapes special characters.
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
	if strings.IndexByte(`[]\^!{},-`, c) >= 0 {
		b.WriteByte('\\')
	}
	b.WriteByte(c)
}
