package agenthost

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// setServer puts a server into the text of an opencode configuration. Every byte stands where it stood, but those of the server's own command, arguments,
// environment and switch. The text must be JSON without comments, or nothing but blanks.
func setServer(text []byte, s Server) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return opencodeDocument(s), nil
	}
	if !json.Valid(text) {
		return nil, fmt.Errorf("it is no JSON")
	}
	all, at, unit := opencodeOf(s), []string{"mcp", s.Name}, unitOf(text)
	now, err := outermost(text, unit).get(at)
	if err != nil {
		return nil, err
	}
	if len(now) == 0 || now[0] != '{' {
		return outermost(text, unit).put(at, oneLine(all))
	}
	environment, err := outermost(text, unit).get(append(at, "environment"))
	if err != nil {
		return nil, err
	}
	members := []struct {
		name  string
		value any
	}{{"type", all.Type}, {"command", all.Command}, {"enabled", all.Enabled}, {"environment", all.Environment}}
	if len(s.Env) == 0 {
		members[3].value = map[string]string{}
		if environment == nil {
			members = members[:3]
		}
	}
	for _, m := range members {
		if text, err = outermost(text, unit).put(append(at, m.name), oneLine(m.value)); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// outermost is the object that a text is.
func outermost(text []byte, unit string) object {
	return object{text: text, start: len(text) - len(bytes.TrimLeft(text, " \t\r\n")), unit: unit}
}

var indentation = regexp.MustCompile(`\n([ \t]+)"`)

// unitOf is by what a text indents what is inside of something.
func unitOf(text []byte) string {
	unit := ""
	for _, found := range indentation.FindAllSubmatch(text, -1) {
		if unit == "" || len(found[1]) < len(unit) {
			unit = string(found[1])
		}
	}
	if unit == "" || len(unit) > 8 {
		return "  "
	}
	return unit
}

// object is one in a text: its brace is at start.
type object struct {
	text  []byte
	start int
	depth int // of the object: 0 is the outermost
	unit  string
}

// member is where an object has a value.
type member struct {
	there      bool
	start, end int // of the value
}

// find looks for a member. behind is where another one could be put: after the last, or after the brace where there is none (then it is negative).
func (o object) find(name string) (behind int, found member, err error) {
	d := json.NewDecoder(bytes.NewReader(o.text[o.start:]))
	if brace, err := d.Token(); err != nil || brace != json.Delim('{') {
		return 0, member{}, fmt.Errorf("%q is to be put into what is no object", name)
	}
	behind = -(o.start + int(d.InputOffset()))
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return 0, member{}, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return 0, member{}, err
		}
		behind = o.start + int(d.InputOffset())
		if key != name {
			continue
		}
		if found.there {
			return 0, member{}, fmt.Errorf("it has %q twice", name)
		}
		found = member{true, behind - len(value), behind}
	}
	return behind, found, nil
}

// get gives the value of a member below members, nil where there is none.
func (o object) get(path []string) ([]byte, error) {
	_, found, err := o.find(path[0])
	if err != nil || !found.there {
		return nil, err
	}
	if len(path) == 1 {
		return o.text[found.start:found.end], nil
	}
	return o.inner(found).get(path[1:])
}

// put gives the text with the value of a member below members. Those that are not there are made.
func (o object) put(path []string, value []byte) ([]byte, error) {
	behind, found, err := o.find(path[0])
	switch {
	case err != nil:
		return nil, err
	case found.there && len(path) > 1:
		return o.inner(found).put(path[1:], value)
	case found.there:
		return o.replace(found, value), nil
	}
	for i := len(path) - 1; i > 0; i-- {
		value = fmt.Appendf(nil, "{%s:%s}", oneLine(path[i]), value)
	}
	return o.insert(behind, path[0], value), nil
}

// inner is a member that is an object.
func (o object) inner(m member) object {
	return object{text: o.text, start: m.start, depth: o.depth + 1, unit: o.unit}
}

// replace gives the text with another value.
func (o object) replace(m member, value []byte) []byte {
	return bytes.Join([][]byte{o.text[:m.start], o.laidOut(value), o.text[m.end:]}, nil)
}

// insert gives the text with a new member.
func (o object) insert(behind int, name string, value []byte) []byte {
	inside, comma, after := "\n"+strings.Repeat(o.unit, o.depth+1), ",", ""
	if behind < 0 {
		behind, comma = -behind, ""
		if bytes.HasPrefix(bytes.TrimLeft(o.text[behind:], " \t"), []byte("}")) {
			after = "\n" + strings.Repeat(o.unit, o.depth)
		}
	}
	text := comma + inside + string(oneLine(name)) + ": " + string(o.laidOut(value)) + after
	return bytes.Join([][]byte{o.text[:behind], []byte(text), o.text[behind:]}, nil)
}

// laidOut is a member's value, over lines where it has members of its own.
func (o object) laidOut(value []byte) []byte {
	if value[0] != '{' {
		return value
	}
	var b bytes.Buffer
	_ = json.Indent(&b, value, strings.Repeat(o.unit, o.depth+1), o.unit)
	return b.Bytes()
}
