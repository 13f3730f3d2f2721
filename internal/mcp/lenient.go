package mcp

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Lenient makes the tool accept arguments from clients that ignore schemas. Strings can replace
// numbers and booleans. The announced schema does not change.
func (t Tool) Lenient() Tool {
	t.lenient = true
	return t
}

// coerce converts a value to the type in the schema if its meaning is clear. It does not change
// other values. The check refuses those.
func coerce(s *jsonschema.Schema, value json.RawMessage) json.RawMessage {
	switch {
	case s.Type == "integer":
		if number, ok := wholeNumber(unquoted(value)); ok {
			return number
		}
	case s.Type == "boolean":
		return flag(value)
	case s.Type == "object" && s.Properties == nil:
		return texts(value)
	}
	return value
}

// wholeNumber converts text to an integer as JSON, if the text represents one, as 30.0 does.
func wholeNumber(text string) (number json.RawMessage, ok bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return strconv.AppendInt(nil, n, 10), true
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil && n == math.Trunc(n) && math.Abs(n) < 1<<53 {
		return strconv.AppendInt(nil, int64(n), 10), true
	}
	return nil, false
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
