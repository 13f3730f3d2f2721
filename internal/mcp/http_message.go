package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// jsonErrors answers malformed requests with JSON-RPC errors, which clients expect. The SDK would
// answer in plain text. The function started reports whether a session has been initialized.
func jsonErrors(started func(session string) bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
		if errors.As(err, new(*http.MaxBytesError)) {
			answerWith(w, http.StatusRequestEntityTooLarge, refusal(nil, jsonrpc.CodeInvalidRequest, "the message is too large: the limit is %d bytes", MaxBody))
			return
		}
		if err != nil { // the client is slow, or gone
			answerWith(w, http.StatusRequestTimeout, refusal(nil, jsonrpc.CodeInvalidRequest, "the rest of the message did not arrive"))
			return
		}
		messages, answer := parseBody(body)
		if answer != nil {
			answerWith(w, http.StatusBadRequest, answer)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var call *jsonrpc.Request
		if len(messages) == 1 {
			call, _ = messages[0].(*jsonrpc.Request)
		}
		if call != nil && tooEarly(call, r, started) {
			answerWith(w, http.StatusBadRequest, refusal(idOf(call), jsonrpc.CodeInvalidRequest, "%.80q requires a session: call initialize first", call.Method))
			return
		}
		held := &refusals{ResponseWriter: w}
		next.ServeHTTP(held, r)
		held.answer(call)
	})
}

// tooEarly reports whether a request is a call before initialize, in a protocol version with
// sessions. The SDK would create a useless session for such a call.
func tooEarly(call *jsonrpc.Request, r *http.Request, started func(session string) bool) bool {
	switch call.Method {
	case "initialize", "ping", "server/discover":
		return false
	}
	var params struct {
		Meta map[string]any `json:"_meta"`
	}
	json.Unmarshal(call.Params, &params) // ignores errors, because the SDK reports invalid params
	_, sessionless := params.Meta["io.modelcontextprotocol/protocolVersion"]
	return call.IsCall() && isServed(call.Method) && !sessionless && r.Header.Get("Mcp-Protocol-Version") < statelessSince && !started(r.Header.Get("Mcp-Session-Id"))
}

// refusals is a ResponseWriter that buffers plain-text errors from the SDK instead of sending them.
type refusals struct {
	http.ResponseWriter
	refused bool
	why     bytes.Buffer
}

func (w *refusals) WriteHeader(status int) {
	if w.refused = status == http.StatusBadRequest && strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain"); !w.refused {
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *refusals) Write(b []byte) (int, error) {
	if w.refused {
		w.why.Write(b[:min(len(b), 300-min(300, w.why.Len()))])
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

// Flush implements http.Flusher, which the SDK needs for streaming.
func (w *refusals) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok && !w.refused {
		f.Flush()
	}
}

// Unwrap lets http.ResponseController use the wrapped writer.
func (w *refusals) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// answer sends a buffered error as a JSON-RPC error. call can be nil.
func (w *refusals) answer(call *jsonrpc.Request) {
	if !w.refused {
		return
	}
	if call != nil && call.IsCall() && !isServed(call.Method) {
		// With any other status, clients would report a failure of the transport.
		answerWith(w.ResponseWriter, http.StatusOK, refusal(idOf(call), jsonrpc.CodeMethodNotFound, "unknown method %.80q", call.Method))
		return
	}
	answerWith(w.ResponseWriter, http.StatusBadRequest, refusal(idOf(call), jsonrpc.CodeInvalidRequest, "%s", strings.TrimSpace(w.why.String())))
}

// idOf returns the id of a call, or nil if it has none.
func idOf(call *jsonrpc.Request) json.RawMessage {
	if call == nil || !call.IsCall() {
		return nil
	}
	id, err := json.Marshal(call.ID.Raw())
	if err != nil {
		return nil
	}
	return id
}

func answerWith(w http.ResponseWriter, status int, answer []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(answer)
}
