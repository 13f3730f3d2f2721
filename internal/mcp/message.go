package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// parse decodes one message. If the server can't serve the message, answer is the error response to
// send. For an empty line, message and answer are nil.
func parse(text []byte, fits bool) (message jsonrpc.Message, answer []byte) {
	if !fits {
		return nil, refusal(nil, jsonrpc.CodeInvalidRequest, "the message is too large: the limit is %d bytes", MaxBody)
	}
	if len(text) == 0 {
		return nil, nil
	}
	var fields map[string]json.RawMessage
	err := json.Unmarshal(text, &fields)
	switch wrong := (*json.SyntaxError)(nil); {
	case errors.As(err, &wrong):
		return nil, refusal(nil, jsonrpc.CodeParseError, "the message is not valid JSON")
	case text[0] == '[':
		return nil, refusal(nil, jsonrpc.CodeInvalidRequest, "batches are not supported: send one message at a time")
	case err != nil:
		return nil, refusal(nil, jsonrpc.CodeInvalidRequest, "not a JSON-RPC message")
	}
	id, given := fields["id"]
	if given && !isID(id) {
		return nil, refusal(nil, jsonrpc.CodeInvalidRequest, "an id must be a string, or an integer between -2^53 and 2^53")
	}
	isAnswer := fields["method"] == nil && (fields["result"] != nil || fields["error"] != nil)
	if fields["method"] == nil && !isAnswer {
		return nil, refusal(id, jsonrpc.CodeInvalidRequest, "not a JSON-RPC message: it has no method")
	}
	if message, err = jsonrpc.DecodeMessage(text); err == nil {
		return message, nil
	}
	if isAnswer { // the id refers to one of our requests
		id = nil
	}
	return nil, refusal(id, jsonrpc.CodeInvalidRequest, "not a JSON-RPC message: %.200v", err)
}

// maxInteger is the maximum absolute value of an integer id. The SDK decodes ids as float64. Larger
// integers would not be exact.
const maxInteger = 1 << 53

// isID reports whether the SDK would return the id unchanged. The SDK truncates 1.5 to 1, and
// treats a request with the id null as a notification.
func isID(id json.RawMessage) bool {
	if id[0] == '"' {
		var text string
		return json.Unmarshal(id, &text) == nil && !strings.ContainsRune(text, utf8.RuneError)
	}
	n, err := strconv.ParseInt(string(id), 10, 64)
	return err == nil && -maxInteger <= n && n <= maxInteger && strconv.FormatInt(n, 10) == string(id)
}

// refusal returns a JSON-RPC error response. A nil id is encoded as null.
func refusal(id json.RawMessage, code int64, format string, args ...any) []byte {
	text, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   jsonrpc.Error   `json:"error"`
	}{"2.0", id, jsonrpc.Error{Code: code, Message: fmt.Sprintf(format, args...)}})
	if err != nil {
		panic(err) // can't happen: the struct contains only strings, a number, and an id that was valid JSON
	}
	return text
}

// parseBody decodes the body of an HTTP request. The body contains one message, or a batch in
// protocol version 2025-03-26.
func parseBody(text []byte) (messages []jsonrpc.Message, answer []byte) {
	text = bytes.TrimSpace(text)
	var each []json.RawMessage
	if !bytes.HasPrefix(text, []byte("[")) {
		each = append(each, text)
	} else if json.Unmarshal(text, &each) != nil {
		return nil, refusal(nil, jsonrpc.CodeParseError, "the message is not valid JSON")
	}
	for _, one := range each {
		message, answer := parse(one, true)
		if answer != nil {
			return nil, answer
		}
		messages = append(messages, message)
	}
	return messages, nil
}

// coded adds a JSON-RPC code to errors from the SDK that have none. Otherwise the SDK would send
// the code 0.
func coded(err error, code int64) error {
	var has *jsonrpc.Error
	if err == nil || errors.As(err, &has) && has.Code != 0 {
		return err
	}
	return &jsonrpc.Error{Code: code, Message: err.Error()}
}

// methods lists the methods that the SDK serves. Over HTTP the SDK refuses other methods before
// they reach a session, and does not send a JSON-RPC error.
var methods = []string{
	"initialize", "ping", "tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
	"prompts/list", "prompts/get", "completion/complete", "logging/setLevel", "server/discover", "subscriptions/listen",
	"notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/roots/list_changed",
}

// isServed reports whether the SDK serves a method.
func isServed(method string) bool { return slices.Contains(methods, method) }
