package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/fault"
)

const (
	// MaxMessage is the maximum size of a request, in bytes. A file of 16 MiB fits into a request,
	// although JSON makes it larger.
	MaxMessage = 34 << 20
	// maxID is the maximum size of a request's id as JSON, in bytes.
	maxID = 128
)

// The error codes of JSON-RPC. All errors without a code of their own have the code codeFailed.
const (
	codeParse    = -32700
	codeRequest  = -32600
	codeMethod   = -32601
	codeParams   = -32602
	codeInternal = -32603
	codeFailed   = -32000
)

// request is a message from a client. A request without an id is a notification.
type request struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// answer is the response to a request, with either Result or Error.
type answer struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *failure        `json:"error,omitempty"`
}

// notification is a message that expects no response.
type notification struct {
	Version string `json:"jsonrpc"`
	Method  string `json:"method"`
	Params  any    `json:"params"`
}

// failure is a JSON-RPC error.
type failure struct {
	Code    int     `json:"code"`
	Message string  `json:"message"`
	Data    details `json:"data"`
}

// details contains the fields of pyro's errors, except the message.
type details struct {
	Kind    fault.Kind `json:"kind"`
	Op      string     `json:"op,omitempty"`
	Subject string     `json:"subject,omitempty"`
	Hint    string     `json:"hint,omitempty"`
}

// failed converts an error of a call to a JSON-RPC error.
func failed(err error) *failure {
	r := fault.ReportOf(err)
	code := codeFailed
	switch r.Kind {
	case fault.Invalid:
		code = codeParams
	case fault.Internal:
		code = codeInternal
	}
	return &failure{code, r.Message, details{r.Kind, r.Op, r.Subject, r.Hint}}
}

// refused returns the error for an invalid message.
func refused(code int, kind fault.Kind, format string, args ...any) *failure {
	return &failure{Code: code, Message: fmt.Sprintf(format, args...), Data: details{Kind: kind}}
}

// read parses a line as a request. If it returns an error, the request contains the fields that it
// could read.
func read(line []byte, fits bool) (r request, wrong *failure) {
	switch {
	case !fits:
		return r, refused(codeRequest, fault.Invalid, "the message is too large: the limit is %d bytes", MaxMessage)
	case !utf8.Valid(line):
		return r, refused(codeParse, fault.Invalid, "the line is not UTF-8")
	case !json.Valid(line):
		return r, refused(codeParse, fault.Invalid, "the line is not valid JSON")
	case line[0] == '[':
		return r, refused(codeRequest, fault.Invalid, "batches are not supported: send one message at a time")
	}
	err := json.Unmarshal(line, &r)
	if r.ID != nil && !isID(r.ID) {
		return request{}, refused(codeRequest, fault.Invalid, "an id must be a string or a number of at most %d bytes", maxID)
	}
	if err != nil {
		return request{ID: r.ID}, refused(codeRequest, fault.Invalid, "not a JSON-RPC request")
	}
	if r.Version != "2.0" || r.Method == "" {
		return r, refused(codeRequest, fault.Invalid, `not a JSON-RPC request: "jsonrpc" must be "2.0", and "method" must be set`)
	}
	return r, nil
}

func isID(id json.RawMessage) bool {
	return len(id) <= maxID && (id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9')
}

// encode returns a message as one line.
func encode(message any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // source code contains many of the characters that this would escape
	err := e.Encode(message)
	return b.Bytes(), err
}
