package hostnet

import "strings"

// entry is a line NAME = VALUE of a configuration file.
type entry struct{ section, name, value string }

// entries parses the common part of the formats of npm, pip and Go: [SECTION], NAME = VALUE, and
// comments. A line that begins with a space continues the value, as in pip's files.
func entries(text string) (all []entry) {
	section := ""
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		name, value, ok := strings.Cut(trimmed, "=")
		switch {
		case trimmed == "" || trimmed[0] == '#' || trimmed[0] == ';':
		case trimmed[0] == '[' && trimmed[len(trimmed)-1] == ']':
			section = trimmed[1 : len(trimmed)-1]
		case (line[0] == ' ' || line[0] == '\t') && len(all) > 0:
			all[len(all)-1].value = strings.TrimSpace(all[len(all)-1].value + " " + trimmed)
		case ok:
			all = append(all, entry{section, strings.TrimSpace(name), strings.Trim(strings.TrimSpace(value), `"'`)})
		}
	}
	return all
}

// lookup returns the last value of a name in a section.
func lookup(all []entry, section, name string) (value string) {
	for _, e := range all {
		if e.section == section && e.name == name {
			value = e.value
		}
	}
	return value
}
