package diff

import (
	"fmt"
	"regexp"
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

// Names that git rejects at the start of a part of a path. Git also rejects the short names that
// NTFS gives to such files.
var (
	gitFolder  = regexp.MustCompile(`^(?i:\.git|git~1)[. ]*(?:[/\\:]|$)`)
	gitModules = regexp.MustCompile(`^(?i:\.gitmodules|gitmod~[1-4]|gi7eba~[1-9]|gi7eb~[1-9]\d|gi7e~[1-9]\d{2}|gi7~[1-9]\d{3}|gi~[1-9]\d{4}|g~[1-9]\d{5}|~[1-9]\d{6})[. ]*(?::|$)`)
	modulesDir = regexp.MustCompile(`^(?i:\.gitmodules)/`)
)

// GitRefuses reports whether git rejects patches that contain a path. It follows git's function
// verify_path. Git rejects names that some file system treats as .git, and links that git would
// read. A part of a path also begins after a backslash, unless another part begins with it.
func GitRefuses(path string, link bool) bool {
	for i := range len(path) {
		first := i == 0 || path[i-1] == '/'
		if !first && (path[i-1] != '\\' || i == 1 || path[i-2] == '/') {
			continue
		}
		rest := path[i:]
		if gitFolder.MatchString(rest) || link && (gitModules.MatchString(rest) || first && modulesDir.MatchString(rest)) {
			return true
		}
	}
	return false
}
