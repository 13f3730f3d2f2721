package mcp

import (
	"bufio"
	"context"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pyro-mcp/pyro/internal/lines"
)

// lockedWriter serializes the writes of messages. It adds headers if the client frames messages.
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

// frame turns on framing.
func (w *lockedWriter) frame() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.framed = true
}

// stdio is an SDK connection on a pair of streams. The SDK's own implementation closes the
// connection when it gets an invalid message, and parses each message three times.
type stdio struct {
	in       io.Reader
	answers  *lockedWriter
	messages chan jsonrpc.Message // closed after the end of the input, when no call runs
	requests *requests
	patience time.Duration // how long calls can run after the end of the input
	gone     chan struct{} // closed by disconnect
	hangUp   sync.Once
}

func newStdio(in io.Reader, out io.WriteCloser, patience time.Duration) *stdio {
	return &stdio{
		in: in, answers: &lockedWriter{WriteCloser: out}, messages: make(chan jsonrpc.Message), requests: newRequests(), patience: patience,
		gone: make(chan struct{}),
	}
}

// Connect starts reading messages.
func (s *stdio) Connect(context.Context) (sdk.Connection, error) {
	go s.receive()
	return s, nil
}

// receive reads messages until the input ends, and lets the server finish the calls. It answers
// invalid messages itself.
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
			if _, err := s.answers.Write(append(answer, '\n')); err != nil {
				return
			}
		} else if message != nil && !s.deliver(message) {
			return
		}
		if err != nil {
			s.finish()
			return
		}
	}
}

// deliver passes a message to the server. It returns false after disconnect.
func (s *stdio) deliver(message jsonrpc.Message) bool {
	s.requests.received(message)
	select {
	case s.messages <- message:
		return true
	case <-s.gone:
		return false
	}
}

// Read returns the next message, or io.EOF if there will be no more.
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
	switch m := message.(type) {
	case *jsonrpc.Response:
		m.Error = coded(m.Error, jsonrpc.CodeInvalidRequest) // answers to calls before initialize have no code
		defer s.requests.answered(m.ID)
	case *jsonrpc.Request:
		if m.IsCall() {
			s.requests.asked(m.ID)
		}
	}
	text, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return err
	}
	_, err = s.answers.Write(append(text, '\n'))
	return err
}

// disconnect marks the client as disconnected. It is idempotent.
func (s *stdio) disconnect() { s.hangUp.Do(func() { close(s.gone) }) }

// Close closes the connection. It is idempotent.
func (s *stdio) Close() error {
	s.disconnect()
	return s.answers.Close()
}

// SessionID returns an empty id, because stdio has no sessions.
func (*stdio) SessionID() string { return "" }
