package mcp

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/pyro-mcp/pyro/internal/lines"
)

// lockedWriter is written to by more than one, a message at a time, in the framing that the client has.
type lockedWriter struct {
	io.WriteCloser
	mu     sync.Mutex
	framed bool
}

func (w *lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.framed {
		return w.WriteCloser.Write(b)
	}
	if _, err := w.WriteCloser.Write(withHeader(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// frame has all that is written from now on be framed.
func (w *lockedWriter) frame() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.framed = true
}

// passOn passes a client's messages on, a line each, until it goes, and answers what is none: the SDK would hang up on it.
func passOn(in io.Reader, to *io.PipeWriter, answers *lockedWriter) {
	buffered := bufio.NewReaderSize(in, 64<<10)
	next := lines.NewReader(buffered, MaxBody).Next
	if isFramed(buffered) {
		answers.frame()
		next = (&frames{buffered}).next
	}
	for {
		line, fits, err := next()
		if fault := faultOf(line, fits); fault != nil {
			text, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil, "error": fault})
			_, werr := answers.Write(append(text, '\n'))
			err = errors.Join(err, werr)
		} else if len(line) > 0 {
			_, werr := to.Write(append(line, '\n'))
			err = errors.Join(err, werr)
		}
		if err != nil {
			to.Close()
			return
		}
	}
}

// faultOf tells why a line, or what is in a frame, is no message, nil where it is one or empty.
func faultOf(line []byte, fits bool) *jsonrpc.Error {
	switch {
	case !fits:
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("a message may have %d bytes", MaxBody)}
	case len(line) == 0:
		return nil
	case !json.Valid(line):
		return &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the line is no JSON"}
	case line[0] == '[':
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "messages come one by one here, not as a batch"}
	}
	if _, err := jsonrpc.DecodeMessage(line); err != nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("this is no JSON-RPC message: %.200v", err)}
	}
	return nil
}
