package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// accept checks arguments against the schema, and returns them in the form that requests can
// decode. Null counts as a missing argument, and 30.0 as an integer.
func (t Tool) accept(args json.RawMessage) (json.RawMessage, error) {
	args = bytes.TrimSpace(args)
	if !json.Valid(args) || args[0] != '{' {
		return nil, fault.New(fault.Invalid, t.Name, "", "the arguments are not a JSON object")
	}
	return t.fit(t.input, args, "")
}

// fit checks a value against a schema. The schema must be one that the functions for arguments
// make. The path names the value in errors.
func (t Tool) fit(s *jsonschema.Schema, value json.RawMessage, path string) (json.RawMessage, error) {
	if t.lenient {
		value = coerce(s, value)
	}
	switch s.Type {
	case "string":
		if value[0] != '"' {
			return nil, t.wants(path, "a string", value)
		}
		var text any
		if len(s.Enum) > 0 && (json.Unmarshal(value, &text) != nil || !slices.Contains(s.Enum, text)) {
			return nil, t.wants(path, "one of "+options(s.Enum), value)
		}
	case "boolean":
		if text := string(value); text != "true" && text != "false" {
			return nil, t.wants(path, "true or false", value)
		}
	case "integer":
		number, ok := wholeNumber(string(value))
		if !ok {
			return nil, t.wants(path, "an integer", value)
		}
		n, _ := strconv.ParseInt(string(number), 10, 64) // can't fail: wholeNumber made it
		switch {
		case s.Minimum != nil && float64(n) < *s.Minimum:
			return nil, t.wants(path, fmt.Sprintf("at least %.0f", *s.Minimum), value)
		case s.Maximum != nil && float64(n) > *s.Maximum:
			return nil, t.wants(path, fmt.Sprintf("at most %.0f", *s.Maximum), value)
		}
		return number, nil
	case "array":
		var items []json.RawMessage
		if value[0] != '[' || json.Unmarshal(value, &items) != nil {
			return nil, t.wants(path, "an array", value)
		}
		changed := false
		for i, item := range items {
			fitting, err := t.fit(s.Items, item, fmt.Sprintf("%s[%d]", path, i))
			if err != nil {
				return nil, err
			}
			items[i], changed = fitting, changed || !bytes.Equal(fitting, item)
		}
		if changed {
			return json.Marshal(items)
		}
	case "object":
		return t.fitObject(s, value, path)
	}
	return value, nil
}

// fitObject checks the fields of an object.
func (t Tool) fitObject(s *jsonschema.Schema, value json.RawMessage, path string) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if value[0] != '{' || json.Unmarshal(value, &fields) != nil {
		return nil, t.wants(path, "an object", value)
	}
	changed := false
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field, schema := fields[name], s.Properties[name]
		switch {
		case s.Properties == nil:
			schema = s.AdditionalProperties
		case schema == nil:
			return nil, fault.New(fault.Invalid, t.Name, "", "unknown argument %.160q", within(path, name))
		case string(field) == "null":
			delete(fields, name)
			changed = true
			continue
		}
		fitting, err := t.fit(schema, field, within(path, name))
		if err != nil {
			return nil, err
		}
		fields[name], changed = fitting, changed || !bytes.Equal(fitting, field)
	}
	for _, name := range s.Required {
		if _, ok := fields[name]; ok {
			continue
		}
		if t.lenient {
			return nil, fault.New(fault.Invalid, t.Name, "", "%s is required", within(path, name))
		}
		return nil, fault.New(fault.Invalid, t.Name, "", "the argument %s is missing", within(path, name))
	}
	if !changed {
		return value, nil
	}
	return json.Marshal(fields)
}

// within returns the path of a field.
func within(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// wants returns the error for a value of the wrong type or size. It shows no text, because texts
// can be secret or long.
func (t Tool) wants(path, want string, got json.RawMessage) error {
	kind := "a string"
	switch got[0] {
	case '{':
		kind = "an object"
	case '[':
		kind = "an array"
	case 't', 'f', 'n':
		kind = string(got)
	case '"':
	default:
		kind = string(got[:min(len(got), 40)])
	}
	return fault.New(fault.Invalid, t.Name, "", "%.160s: want %s, got %s", fault.Printable(path), want, kind)
}

// options returns the values of an enumeration as text.
func options(values []any) string {
	var texts []string
	for _, v := range values {
		texts = append(texts, fmt.Sprintf("%q", v))
	}
	return strings.Join(texts, ", ")
}
