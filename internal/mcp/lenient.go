package mcp

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Leniently is the tool taking what clients send that do not go by schemas: null as if it was left out, and numbers and flags as texts. What it announces is the same.
func (t Tool) Leniently() Tool {
	t.lenient = true
	return t
}

// loosened are arguments as the schema has them, as far as it is clear what was meant. What is not stays, for the schema to refuse.
func (t Tool) loosened(args json.RawMessage) json.RawMessage {
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

// wholeNumber is a value as a number, where it is one in any form.
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

// flag is a value as true or false, where it is one of both in any form.
func flag(value json.RawMessage) json.RawMessage {
	switch strings.ToLower(unquoted(value)) {
	case "true", "1", "yes":
		return json.RawMessage("true")
	case "false", "0", "no", "":
		return json.RawMessage("false")
	}
	return value
}

// texts is an object whose values are texts: numbers as they are written, null as the empty one.
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

// unquoted is a value as a text, without the blanks around it.
func unquoted(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return strings.TrimSpace(text)
	}
	return string(value)
}
