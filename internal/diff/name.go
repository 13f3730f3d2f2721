package diff

import (
	"fmt"
	"strings"
)

// quote formats a name like git with core.quotePath. It quotes names that contain quotes,
// backslashes or bytes other than printable ASCII. It also quotes names with a space before a
// slash, because git can't parse them unquoted.
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

// tab returns the tab that must follow a name with spaces. Without the tab, readers could interpret
// the text after a space as a timestamp.
func tab(quoted string) string {
	if strings.Contains(quoted, " ") {
		return "\t"
	}
	return ""
}

// GitRefuses reports whether git rejects patches that contain a path. It follows git's function
// verify_path. Git rejects names that some file system treats as .git, and links that git would
// read.
func GitRefuses(path string, link bool) bool {
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
