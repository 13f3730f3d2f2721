package demo

import (
	"bytes"
	"encoding/json"
	"strings"
)

// callIn finds a tool call that a model wrote as text. The text is {"name": …, "parameters" or
// "arguments": {…}}, alone or in a code block.
func callIn(answer, tool string) (args string, ok bool) {
	answer = strings.TrimSpace(answer)
	if inside, fenced := strings.CutPrefix(answer, "```"); fenced {
		_, inside, _ = strings.Cut(inside, "\n") // skips the language of the block
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
