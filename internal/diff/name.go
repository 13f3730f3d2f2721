package diff

import (
	"fmt"
	"strings"
)

// quote writes a name as git does with core.quotePath: as it is, or between quotes with C's escapes where it has a byte that is not printable ASCII, a
// quote or a backslash. Git itself can't read an unquoted name in which a space comes before a slash, so that is quoted too.
func quote(name string) string {
	plain := !strings.Contains(name, " /")
	for i := range len(name) {
		plain = plain && name[i] >= ' ' && name[i] < 0x7f && name[i] != '"' && name[i] != '\\'
	}
	if plain {
		return name
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(name) {
		c := name[i]
		if at := strings.IndexByte("\a\b\t\n\v\f\r\"\\", c); at >= 0 {
			b.WriteByte('\\')
			b.WriteByte(`abtnvfr"\`[at])
		} else if c < ' ' || c >= 0x7f {
			fmt.Fprintf(&b, "\\%03o", c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// tab ends a name with a space in it: what comes after a space could be a time else.
func tab(quoted string) string {
	if strings.Contains(quoted, " ") {
		return "\t"
	}
	return ""
}

// gitRefuses tells whether git refuses any patch with a path, as its verify_path does: where a name in it is .git to one of the file systems that git
// guards against, or is that of a link which git would read.
func gitRefuses(path string, link bool) bool {
	for name := range strings.SplitSeq(path, "/") {
		lower := strings.ToLower(name)
		rest, found := strings.CutPrefix(lower, ".git")
		if !found {
			rest, found = strings.CutPrefix(lower, "git~1")
		}
		if found {
			rest, _, _ = strings.Cut(strings.ReplaceAll(rest, `\`, ":"), ":")
			if strings.Trim(rest, ". ") == "" {
				return true
			}
		}
		if link && (lower == ".gitmodules" || lower == "gitmod~1") {
			return true
		}
	}
	return false
}
