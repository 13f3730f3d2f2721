package mcp

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/pyro-mcp/pyro/internal/socket"
)

// endTimeout limits the wait for the answers of cancelled calls after the end of the input.
const endTimeout = 30 * time.Second

// requests stores the ids of the requests on a connection that have no response yet.
type requests struct {
	mu        sync.Mutex
	calls     map[jsonrpc.ID]bool // from the client
	questions map[jsonrpc.ID]bool // to the client
	changed   chan struct{}       // receives a value after a change
}

func newRequests() *requests {
	return &requests{calls: map[jsonrpc.ID]bool{}, questions: map[jsonrpc.ID]bool{}, changed: make(chan struct{}, 1)}
}

// received records a message from the client.
func (r *requests) received(message jsonrpc.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch m := message.(type) {
	case *jsonrpc.Request:
		if m.IsCall() && m.Method != "subscriptions/listen" { // a subscription gets its response at the end of the connection
			r.calls[m.ID] = true
		}
	case *jsonrpc.Response:
		delete(r.questions, m.ID)
	}
}

// asked records a request to the client.
func (r *requests) asked(id jsonrpc.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.questions[id] = true
	r.signal()
}

// answered records a response to the client.
func (r *requests) answered(id jsonrpc.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.calls, id)
	r.signal()
}

func (r *requests) signal() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// open returns the ids of the requests that have no response.
func (r *requests) open() (calls, questions []jsonrpc.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.calls)), slices.Collect(maps.Keys(r.questions))
}

// finish waits until all calls are answered, after the client has closed its input. It cancels
// calls that run for too long, and all calls when the client stops reading.
func (s *stdio) finish() {
	if s.await(s.patience) {
		return
	}
	calls, _ := s.requests.open()
	for _, id := range calls {
		params, err := json.Marshal(map[string]any{"requestId": id.Raw(), "reason": "the input has ended"})
		if err != nil || !s.deliver(&jsonrpc.Request{Method: "notifications/cancelled", Params: params}) {
			return
		}
	}
	s.await(endTimeout)
}

// await waits until all calls are answered or the client has disconnected. It returns false if
// neither happens within the given time. Questions to the client fail, because it cannot answer
// them.
func (s *stdio) await(patience time.Duration) bool {
	reading, stop := socket.WhileRead(context.Background(), s.answers.WriteCloser, patience)
	defer stop()
	for {
		calls, questions := s.requests.open()
		if len(calls) == 0 {
			return true
		}
		for _, id := range questions {
			no := &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the input has ended"}}
			if !s.deliver(no) {
				return true
			}
		}
		select {
		case <-s.requests.changed:
		case <-s.gone:
			return true
		case <-reading.Done():
			return reading.Err() != context.DeadlineExceeded
		}
	}
}
