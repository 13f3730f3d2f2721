package agenthost

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pyro-mcp/pyro/internal/lazyregexp"
)

// setServer adds a server to the text of an opencode configuration. If the server exists, setServer
// replaces it. It changes only the members type, command, environment and enabled of the server,
// and preserves all other bytes. The text must be empty, or JSON without comments.
func setServer(text []byte, s Server) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return opencodeDocument(s), nil
	}
	if !json.Valid(text) {
		return nil, fmt.Errorf("invalid JSON")
	}
	all, at, unit := opencodeOf(s), []string{"mcp", s.Name}, unitOf(text)
	now, err := rootObject(text, unit).get(at)
	if err != nil {
		return nil, err
	}
	if len(now) == 0 || now[0] != '{' {
		return rootObject(text, unit).put(at, oneLine(all))
	}
	environment, err := rootObject(text, unit).get(append(at, "environment"))
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
		if text, err = rootObject(text, unit).put(append(at, m.name), oneLine(m.value)); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// rootObject returns the object at the top level of a text.
func rootObject(text []byte, unit string) object {
	return object{text: text, start: len(text) - len(bytes.TrimLeft(text, " \t\r\n")), unit: unit}
}

var indentation = lazyregexp.New(`\n([ \t]+)"`)

// unitOf returns the indentation that a text uses for one nesting level.
func unitOf(text []byte) string {
	unit := ""
	for _, found := range indentation().FindAllSubmatch(text, -1) {
		if unit == "" || len(found[1]) < len(unit) {
			unit = string(found[1])
		}
	}
	if unit == "" || len(unit) > 8 {
		return "  "
	}
	return unit
}

// object is a JSON object within a text.
type object struct {
	text  []byte
	start int // offset of the opening brace
	depth int // nesting level; 0 is the outermost object
	unit  string
}

// member contains the position of a member's value in the text.
type member struct {
	there      bool
	start, end int // offsets of the value
}

// find looks for the member with the given name. behind is the offset at which another member can
// be inserted: the end of the last member. If the object has no members, behind is the negated
// offset after the opening brace.
func (o object) find(name string) (behind int, found member, err error) {
	d := json.NewDecoder(bytes.NewReader(o.text[o.start:]))
	if brace, err := d.Token(); err != nil || brace != json.Delim('{') {
		return 0, member{}, fmt.Errorf("the parent of %q is not an object", name)
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
			return 0, member{}, fmt.Errorf("duplicate key %q", name)
		}
		found = member{true, behind - len(value), behind}
	}
	return behind, found, nil
}

// get returns the value of a nested member, or nil if it does not exist.
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

// put returns the text with the value of a nested member set. It creates missing objects.
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

// inner returns the object that is the value of a member.
func (o object) inner(m member) object {
	return object{text: o.text, start: m.start, depth: o.depth + 1, unit: o.unit}
}

// replace returns the text with the value of a member replaced.
func (o object) replace(m member, value []byte) []byte {
	return bytes.Join([][]byte{o.text[:m.start], o.indentValue(value), o.text[m.end:]}, nil)
}

// insert returns the text with a new member inserted.
func (o object) insert(behind int, name string, value []byte) []byte {
	inside, comma, after := "\n"+strings.Repeat(o.unit, o.depth+1), ",", ""
	if behind < 0 {
		behind, comma = -behind, ""
		if bytes.HasPrefix(bytes.TrimLeft(o.text[behind:], " \t"), []byte("}")) {
			after = "\n" + strings.Repeat(o.unit, o.depth)
		}
	}
	text := comma + inside + string(oneLine(name)) + ": " + string(o.indentValue(value)) + after
	return bytes.Join([][]byte{o.text[:behind], []byte(text), o.text[behind:]}, nil)
}

// indentValue returns an object, indented for its position in the text. It returns other values
// unchanged.
func (o object) indentValue(value []byte) []byte {
	if value[0] != '{' {
		return value
	}
	var b bytes.Buffer
	_ = json.Indent(&b, value, strings.Repeat(o.unit, o.depth+1), o.unit)
	return b.Bytes()
}
