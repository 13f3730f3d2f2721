package patch

import (
	"strconv"
	"strings"
)

// maxPath is the length of the longest path, in bytes, and maxName that of a name in it. They are Linux's.
const (
	maxPath = 4096
	maxName = 255
)

// validPath tells whether a path leads from the root to something below it. Names need not be UTF-8.
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

// names tells whether a name in a patch, perhaps with prefixes, is that of a path.
func names(name, path string) bool { return name == path || strings.HasSuffix(name, "/"+path) }

// both is the name of a file that stays where it is. The line "diff --git" tells what of the two names is a prefix. Without it that is a/ and b/, or
// whatever differs before the first slash. If more differs, the new name counts, but of "x" and "x~" the shorter.
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

// one is the name of a file of which the patch names one side. The line "diff --git" tells what of it is a prefix, which a lone name does not.
func (h *header) one(name, prefix string) string {
	switch {
	case name == "" || name == devNull:
		return h.common
	case h.old != devNull && h.new != devNull && h.old != "" && h.new != "":
		return h.both() // both have a name, and a time tells which there is not
	case h.common != "" && names(name, h.common):
		return h.common
	}
	return strings.TrimPrefix(name, prefix)
}

// cutName reads a name at the begin of a text, and gives what follows it: a name between quotes, or one that ends with a tab.
func cutName(text string) (name, rest string, ok bool) {
	if strings.HasPrefix(text, `"`) {
		return unquote(text)
	}
	name, rest, _ = strings.Cut(text, "\t")
	return name, rest, true
}

// wholeName reads a name that is all of a text.
func wholeName(text string) (string, bool) {
	if !strings.HasPrefix(text, `"`) {
		return text, text != ""
	}
	name, rest, ok := unquote(text)
	return name, ok && rest == "" && name != ""
}

// commonName is the name in a line "diff --git", from which the prefixes are taken; "" where it has two, or it is not clear where the second begins.
// Between names without quotes it is the middle, since the prefixes are as long as each other.
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

// unquote reads a name between quotes with C's escapes, and gives what follows it.
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
