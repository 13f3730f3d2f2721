package rpc

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
)

// Tolerant returns a JSON value with integral numbers, such as 30.0 and 3e1, as integers. Some
// clients have no integers, and Go does not decode 30.0 as an integer. If the value is an object,
// the result has no fields that are null, because null means a missing field. It returns invalid
// JSON unchanged.
func Tolerant(value []byte) []byte {
	if !json.Valid(value) {
		return value
	}
	value = integers(value)
	var fields map[string]json.RawMessage
	if json.Unmarshal(value, &fields) != nil {
		return value
	}
	missing := false
	for name, field := range fields {
		if string(field) == "null" {
			delete(fields, name)
			missing = true
		}
	}
	if !missing {
		return value
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return value
	}
	return text
}

// integers replaces the numbers in valid JSON that are integers but are not written as integers.
func integers(text []byte) []byte {
	var out []byte
	copied := 0
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"':
			i += stringLength(text[i:])
		case c == '-' || '0' <= c && c <= '9':
			end := i + 1
			for end < len(text) && bytes.IndexByte([]byte("0123456789+-.eE"), text[end]) >= 0 {
				end++
			}
			if n, ok := integer(text[i:end]); ok {
				out = strconv.AppendInt(append(out, text[copied:i]...), n, 10)
				copied = end
			}
			i = end
		default:
			i++
		}
	}
	if copied == 0 {
		return text
	}
	return append(out, text[copied:]...)
}

// integer returns the value of a number that has a fraction or an exponent, if it is an integer
// that a float64 represents exactly.
func integer(number []byte) (int64, bool) {
	if !bytes.ContainsAny(number, ".eE") {
		return 0, false
	}
	n, err := strconv.ParseFloat(string(number), 64)
	return int64(n), err == nil && n == math.Trunc(n) && math.Abs(n) < 1<<53
}

// stringLength returns the length of the JSON string at the start of text, with its quotes.
func stringLength(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}
