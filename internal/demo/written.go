package demo

import (
	"bytes"
	"encoding/json"
	"strings"
)

// callIn finds the call of a tool that a model wrote as its answer instead of making it: {"name": …, "parameters" or "arguments": {…}}, alone or in a block of code.
func callIn(answer, tool string) (args string, ok bool) {
	answer = strings.TrimSpace(answer)
	if inside, fenced := strings.CutPrefix(answer, "```"); fenced {
		_, inside, _ = strings.Cut(inside, "\n") // after the name of a language
		answer = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(inside), "```"))
	}
	if !strings.HasPrefix(answer, "{") {
		return "", false
	}
	var call struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
		Arguments  json.RawMessage `json:"arguments"`
	}
	if json.Unmarshal([]byte(answer), &call) != nil || call.Name != tool {
		return "", false
	}
	for _, given := range []json.RawMessage{call.Parameters, call.Arguments} {
		if bytes.HasPrefix(given, []byte("{")) {
			return string(given), true
		}
	}
	return "", false
}
