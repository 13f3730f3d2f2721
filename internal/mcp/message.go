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

// parse decodes one message. A message that can't be served gives the answer to send instead. An empty line gives neither.
func parse(text []byte, fits bool) (message jsonrpc.Message, answer []byte) {
	if !fits {
		return nil, refusal(nil, jsonrpc.CodeInvalidRequest, "a message may have %d bytes", MaxBody)
	}
	if len(text) == 0 {
		return nil, nil
	}
	var fields map[string]json.RawMessage
	err := json.Unmarshal(text, &fields)
	switch wrong := (*json.SyntaxError)(nil); {
	case errors.As(err, &wrong):
		return nil, refusal(nil, jsonrpc.CodeParseError, "the message is no JSON")
	case text[0] == '[':
		return nil, refusal(nil, jsonrpc.CodeInvalidRequest, "messages come one by one here, not as a batch")
	case err != nil:
		return nil, refusal(nil, jsonrpc.CodeInvalidRequest, "this is no JSON-RPC message")
	}
	id, given := fields["id"]
	if given && !isID(id) {
		return nil, refusal(nil, jsonrpc.CodeInvalidRequest, "an id must be a string, or an integer between -2^53 and 2^53")
	}
	isAnswer := fields["method"] == nil && (fields["result"] != nil || fields["error"] != nil)
	if fields["method"] == nil && !isAnswer {
		return nil, refusal(id, jsonrpc.CodeInvalidRequest, "this is no JSON-RPC message: it has no method")
	}
	if message, err = jsonrpc.DecodeMessage(text); err == nil {
		return message, nil
	}
	if isAnswer { // whose id is one of the server's
		id = nil
	}
	return nil, refusal(id, jsonrpc.CodeInvalidRequest, "this is no JSON-RPC message: %.200v", err)
}

// maxInteger bounds integer ids: the SDK decodes them as float64, which is exact up to here.
const maxInteger = 1 << 53

// isID tells whether the SDK answers with this id exactly as it came. It truncates 1.5 to 1, and takes null for a notification.
func isID(id json.RawMessage) bool {
	if id[0] == '"' {
		var text string
		return json.Unmarshal(id, &text) == nil && !strings.ContainsRune(text, utf8.RuneError)
	}
	n, err := strconv.ParseInt(string(id), 10, 64)
	return err == nil && -maxInteger <= n && n <= maxInteger && strconv.FormatInt(n, 10) == string(id)
}

// refusal is a JSON-RPC error response. A nil id becomes null.
func refusal(id json.RawMessage, code int64, format string, args ...any) []byte {
	text, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   jsonrpc.Error   `json:"error"`
	}{"2.0", id, jsonrpc.Error{Code: code, Message: fmt.Sprintf(format, args...)}})
	if err != nil {
		panic(err) // it is made of texts and of an id that was JSON
	}
	return text
}

// parseBody decodes what an HTTP request posts: one message, or a batch of protocol 2025-03-26, of which each must be a message.
func parseBody(text []byte) (messages []jsonrpc.Message, answer []byte) {
	text = bytes.TrimSpace(text)
	var each []json.RawMessage
	if !bytes.HasPrefix(text, []byte("[")) {
		each = append(each, text)
	} else if json.Unmarshal(text, &each) != nil {
		return nil, refusal(nil, jsonrpc.CodeParseError, "the message is no JSON")
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

// coded gives an error that the SDK returns without a JSON-RPC code a code, which would be 0.
func coded(err error, code int64) error {
	var has *jsonrpc.Error
	if err == nil || errors.As(err, &has) && has.Code != 0 {
		return err
	}
	return &jsonrpc.Error{Code: code, Message: err.Error()}
}

// methods are those that the SDK serves. It refuses others over HTTP before they reach a session, and without a JSON-RPC error.
var methods = []string{
	"initialize", "ping", "tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
	"prompts/list", "prompts/get", "completion/complete", "logging/setLevel", "server/discover", "subscriptions/listen",
	"notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/roots/list_changed",
}

// isServed tells whether the SDK has a method.
func isServed(method string) bool { return slices.Contains(methods, method) }
