package mcp

import (
	"bufio"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

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

// stdio is the connection of a client on a pair of streams, as the SDK has connections. The SDK's own hangs up on what is no message, and reads what is one three times.
type stdio struct {
	in       io.Reader
	answers  *lockedWriter
	messages chan jsonrpc.Message // closed when the client has gone
	gone     chan struct{}        // closed when the client is taken to have gone
	hangUp   sync.Once
}

func newStdio(in io.Reader, out io.WriteCloser) *stdio {
	return &stdio{in: in, answers: &lockedWriter{WriteCloser: out}, messages: make(chan jsonrpc.Message), gone: make(chan struct{})}
}

// Connect begins to read.
func (s *stdio) Connect(context.Context) (sdk.Connection, error) {
	go s.receive()
	return s, nil
}

// receive reads a client's messages until it goes, and answers what is none.
func (s *stdio) receive() {
	defer close(s.messages)
	buffered := bufio.NewReaderSize(s.in, 64<<10)
	next := lines.NewReader(buffered, MaxBody).Next
	if isFramed(buffered) {
		s.answers.frame()
		next = (&frames{buffered}).next
	}
	for {
		line, fits, err := next()
		if message, answer := parse(line, fits); answer != nil {
			_, werr := s.answers.Write(append(answer, '\n'))
			err = errors.Join(err, werr)
		} else if message != nil {
			select {
			case s.messages <- message:
			case <-s.gone:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Read gives the next message, io.EOF where the client has gone.
func (s *stdio) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case message, ok := <-s.messages:
		if !ok {
			return nil, io.EOF
		}
		return message, nil
	case <-s.gone:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Write sends a message.
func (s *stdio) Write(ctx context.Context, message jsonrpc.Message) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if r, ok := message.(*jsonrpc.Response); ok {
		r.Error = coded(r.Error, jsonrpc.CodeInvalidRequest) // of a call before initialize
	}
	text, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return err
	}
	_, err = s.answers.Write(append(text, '\n'))
	return err
}

// leave takes the client to have gone. Idempotent.
func (s *stdio) leave() { s.hangUp.Do(func() { close(s.gone) }) }

// Close ends the connection. Idempotent.
func (s *stdio) Close() error {
	s.leave()
	return s.answers.Close()
}

// SessionID is that of no session.
func (*stdio) SessionID() string { return "" }
