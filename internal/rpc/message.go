package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/fault"
)

const (
	// MaxMessage bounds a request, in bytes: a file of 16 MiB as JSON is not much more.
	MaxMessage = 34 << 20
	// maxID bounds the id of a request, as JSON, in bytes.
	maxID = 128
)

// The codes of JSON-RPC, and the one for all that goes wrong in a call for any other reason.
const (
	codeParse    = -32700
	codeRequest  = -32600
	codeMethod   = -32601
	codeParams   = -32602
	codeInternal = -32603
	codeFailed   = -32000
)

// request is what a client sends. Without an id it is a notification.
type request struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// answer is what it gets for a request: one of Result and Error.
type answer struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *failure        `json:"error,omitempty"`
}

// notification is what it is told meanwhile.
type notification struct {
	Version string `json:"jsonrpc"`
	Method  string `json:"method"`
	Params  any    `json:"params"`
}

// failure is an error as JSON-RPC has them.
type failure struct {
	Code    int     `json:"code"`
	Message string  `json:"message"`
	Data    details `json:"data"`
}

// details are what pyro's errors tell besides their message.
type details struct {
	Kind    fault.Kind `json:"kind"`
	Op      string     `json:"op,omitempty"`
	Subject string     `json:"subject,omitempty"`
	Hint    string     `json:"hint,omitempty"`
}

// failed is what became of a call.
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

// refused is what is wrong with a message.
func refused(code int, kind fault.Kind, format string, args ...any) *failure {
	return &failure{Code: code, Message: fmt.Sprintf(format, args...), Data: details{Kind: kind}}
}

// read takes a line for a request. What is wrong with it is told with the request, as far as it could be read.
func read(line []byte, fits bool) (r request, wrong *failure) {
	switch {
	case !fits:
		return r, refused(codeRequest, fault.Invalid, "a message may have %d bytes", MaxMessage)
	case !utf8.Valid(line):
		return r, refused(codeParse, fault.Invalid, "the line is not UTF-8")
	case !json.Valid(line):
		return r, refused(codeParse, fault.Invalid, "the line is no JSON")
	case line[0] == '[':
		return r, refused(codeRequest, fault.Invalid, "messages come one by one here, not as a batch")
	}
	err := json.Unmarshal(line, &r)
	if r.ID != nil && !isID(r.ID) {
		return request{}, refused(codeRequest, fault.Invalid, "an id is a string or a number, of at most %d bytes", maxID)
	}
	if err != nil {
		return request{ID: r.ID}, refused(codeRequest, fault.Invalid, "this is no JSON-RPC request")
	}
	if r.Version != "2.0" || r.Method == "" {
		return r, refused(codeRequest, fault.Invalid, `this is no JSON-RPC request: "jsonrpc" must be "2.0", and there must be a "method"`)
	}
	return r, nil
}

func isID(id json.RawMessage) bool {
	return len(id) <= maxID && (id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9')
}

// encode writes a message as a line.
func encode(message any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // code is full of <, > and &
	err := e.Encode(message)
	return b.Bytes(), err
}
