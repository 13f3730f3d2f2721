package patch

import (
	"strconv"
	"strings"
)

// maxPath and maxName are Linux's limits for the length of a path and of a name in it, in bytes.
const (
	maxPath = 4096
	maxName = 255
)

// validPath reports whether a path is relative, clean and below the root. Names can contain any
// bytes, not only UTF-8.
func validPath(path string) bool {
	if path == "" || len(path) >= maxPath || strings.IndexByte(path, 0) >= 0 {
		return false
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." || name == ".." || len(name) > maxName {
			return false
		}
	}
	return true
}

// names reports whether a name in a patch refers to the path. The name can have a prefix.
func names(name, path string) bool { return name == path || strings.HasSuffix(name, "/"+path) }

// both returns the name of a file that is not renamed. If the patch has a "diff --git" line, that
// line shows the length of the prefixes.
//
// Otherwise both removes the prefixes a/ and b/. If the two names differ only in their first
// components, it removes these components. If the names still differ, the result is the new name.
// But if the new name begins with the old name, as "x~" begins with "x", the result is the old
// name.
func (h *header) both() string {
	switch {
	case h.old == "" && h.new == "", h.common != "" && names(h.old, h.common) && names(h.new, h.common):
		return h.common
	case h.old == h.new:
		return h.new
	}
	old, now := h.old, h.new
	_, oldRest, _ := strings.Cut(old, "/")
	_, nowRest, _ := strings.Cut(now, "/")
	if oldRest == nowRest && nowRest != "" || strings.HasPrefix(old, "a/") && strings.HasPrefix(now, "b/") {
		old, now = oldRest, nowRest
	}
	if strings.HasPrefix(now, old) && old != "" {
		return old
	}
	return now
}

// one returns the name of a file if the patch contains it on only one side. If the patch has a
// "diff --git" line, that line shows the length of the prefix.
func (h *header) one(name, prefix string) string {
	switch {
	case name == "" || name == devNull:
		return h.common
	case h.old != devNull && h.new != devNull && h.old != "" && h.new != "":
		return h.both() // Both sides have a name, and an epoch timestamp marks the absent side.
	case h.common != "" && names(name, h.common):
		return h.common
	}
	return strings.TrimPrefix(name, prefix)
}

// cutName splits a name from the text after it. The name is quoted, or it ends at a tab.
func cutName(text string) (name, rest string, ok bool) {
	if strings.HasPrefix(text, `"`) {
		return unquote(text)
	}
	name, rest, _ = strings.Cut(text, "\t")
	return name, rest, true
}

// wholeName parses a text that consists only of a name.
func wholeName(text string) (string, bool) {
	if !strings.HasPrefix(text, `"`) {
		return text, text != ""
	}
	name, rest, ok := unquote(text)
	return name, ok && rest == "" && name != ""
}

// commonName returns the name in a "diff --git" line without its prefixes. If the two names differ
// or can't be separated, it returns "". It splits two unquoted names in the middle, because their
// prefixes have the same length.
func commonName(text string) string {
	var first, second string
	ok := true
	switch at := strings.IndexByte(text, '"'); {
	case at == 0:
		if first, second, ok = unquote(text); !ok || !strings.HasPrefix(second, " ") {
			return ""
		}
		second, ok = wholeName(second[1:])
	case at > 0 && text[at-1] == ' ':
		first = text[:at-1]
		second, ok = wholeName(text[at:])
	case len(text)%2 == 1 && text[len(text)/2] == ' ':
		first, second = text[:len(text)/2], text[len(text)/2+1:]
	}
	if !ok {
		return ""
	}
	if first == second {
		return first
	}
	_, a, _ := strings.Cut(first, "/")
	_, b, _ := strings.Cut(second, "/")
	if a != b {
		return ""
	}
	return a
}

// unquote parses a name in double quotes with C escapes. It also returns the text after the name.
func unquote(text string) (name, rest string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			return b.String(), text[i+1:], true
		case '\\':
			if i++; i == len(text) {
				return "", "", false
			}
			if at := strings.IndexByte(`abtnvfr"\`, text[i]); at >= 0 {
				b.WriteByte("\a\b\t\n\v\f\r\"\\"[at])
				continue
			}
			if i+3 > len(text) {
				return "", "", false
			}
			n, err := strconv.ParseUint(text[i:i+3], 8, 8)
			if err != nil {
				return "", "", false
			}
			b.WriteByte(byte(n))
			i += 2
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}
