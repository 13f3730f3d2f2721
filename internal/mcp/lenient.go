package mcp

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Lenient makes the tool accept arguments from clients that ignore schemas. Null counts as a
// missing argument, and strings can replace numbers and booleans. The announced schema does not
// change.
func (t Tool) Lenient() Tool {
	t.lenient = true
	return t
}

// coerce converts arguments to the types in the schema if their meaning is clear. It does not
// change other arguments. The schema check refuses those.
func (t Tool) coerce(args json.RawMessage) json.RawMessage {
	var given map[string]json.RawMessage
	if json.Unmarshal(args, &given) != nil {
		return args
	}
	for name, value := range given {
		switch s := t.input.Properties[name]; {
		case s == nil:
		case string(value) == "null":
			delete(given, name)
		case s.Type == "integer":
			given[name] = wholeNumber(value)
		case s.Type == "boolean":
			given[name] = flag(value)
		case s.Type == "object" && s.AdditionalProperties != nil && s.AdditionalProperties.Type == "string":
			given[name] = texts(value)
		}
	}
	loose, err := json.Marshal(given)
	if err != nil {
		return args
	}
	return loose
}

// wholeNumber converts a JSON value to an integer if the value represents one.
func wholeNumber(value json.RawMessage) json.RawMessage {
	text := unquoted(value)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return strconv.AppendInt(nil, n, 10)
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil && n == math.Trunc(n) && math.Abs(n) < 1<<53 {
		return strconv.AppendInt(nil, int64(n), 10)
	}
	return value
}

// flag converts a JSON value to a boolean if the value represents one.
func flag(value json.RawMessage) json.RawMessage {
	switch strings.ToLower(unquoted(value)) {
	case "true", "1", "yes":
		return json.RawMessage("true")
	case "false", "0", "no", "":
		return json.RawMessage("false")
	}
	return value
}

// texts converts the values of an object to strings. Null becomes an empty string.
func texts(value json.RawMessage) json.RawMessage {
	var given map[string]json.RawMessage
	if json.Unmarshal(value, &given) != nil {
		return value
	}
	for name, v := range given {
		switch v[0] {
		case '"', '{', '[':
		case 'n':
			given[name] = json.RawMessage(`""`)
		default:
			given[name], _ = json.Marshal(string(v))
		}
	}
	loose, err := json.Marshal(given)
	if err != nil {
		return value
	}
	return loose
}

// unquoted returns a JSON value as text. If the value is a string, it removes the quotes and the
// surrounding spaces.
func unquoted(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return strings.TrimSpace(text)
	}
	return string(value)
}
