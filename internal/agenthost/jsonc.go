package agenthost

// standard converts JSONC to JSON. It replaces comments and trailing commas with spaces, so that
// offsets do not change. changed reports whether the text contained any of them. Invalid text stays
// invalid.
func standard(text []byte) (plain []byte, changed bool) {
	plain = append(plain, text...)
	comma := -1 // offset of the last comma, if only spaces have followed it; otherwise -1
	for i := 0; i < len(plain); i++ {
		switch c := plain[i]; {
		case c == '"':
			comma = -1
			for i++; i < len(plain) && plain[i] != '"'; i++ {
				if plain[i] == '\\' {
					i++
				}
			}
		case c == '/' && i+1 < len(plain) && (plain[i+1] == '/' || plain[i+1] == '*'):
			end := commentEnd(plain, i)
			blank(plain[i:end])
			i, changed = end-1, true
		case c == ',':
			comma = i
		case c == '}' || c == ']':
			if comma >= 0 {
				plain[comma], changed = ' ', true
			}
			comma = -1
		case c != ' ' && c != '\t' && c != '\r' && c != '\n':
			comma = -1
		}
	}
	return plain, changed
}

// commentEnd returns the offset after the comment that begins at the given offset.
func commentEnd(text []byte, from int) int {
	line := text[from+1] == '/'
	for i := from + 2; i < len(text); i++ {
		if line && text[i] == '\n' {
			return i
		}
		if !line && text[i] == '/' && text[i-1] == '*' && i > from+2 {
			return i + 1
		}
	}
	return len(text)
}

// blank overwrites a text with spaces. It preserves line breaks, so that errors have the correct
// line number.
func blank(text []byte) {
	for i, c := range text {
		if c != '\n' {
			text[i] = ' '
		}
	}
}
