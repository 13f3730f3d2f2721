package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
	"github.com/pyro-mcp/pyro/internal/gen/agent/v1/agentv1connect"
	"github.com/pyro-mcp/pyro/internal/program"
)

// byPath answers each call with the handler for its path. If there is no such handler, it resets
// the HTTP stream.
func byPath(handlers map[string]http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := handlers[r.URL.Path]
		if h == nil {
			panic(http.ErrAbortHandler)
		}
		h(w, r)
	}
}

// TestStartedOnce checks that the client does not start a command again after it has received an
// event about it. This must hold even if the agent then denies that the command exists.
func TestStartedOnce(t *testing.T) {
	starts := 0
	stream := evil(t, byPath(map[string]http.HandlerFunc{
		agentv1connect.AgentServiceExecProcedure: func(w http.ResponseWriter, r *http.Request) {
			starts++
			answer(event(t, &agentv1.ExecEvent{Outputs: []*agentv1.Output{{Data: []byte("x")}}}))(w, r)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		agentv1connect.AgentServiceFollowProcedure: func(w http.ResponseWriter, r *http.Request) {
			end := `{"error":{"code":"not_found","message":"never heard of it"}}`
			answer(envelope(2, uint32(len(end)), []byte(end)))(w, r)
		},
	}))
	c, err := Dial(within(t), stream)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Exec(within(t), program.Command{Argv: []string{"x"}}, program.Attach{Stdout: writerFunc(func(p []byte) (int, error) {
		c.current().close() // the link breaks
		return len(p), nil
	})})
	if starts != 1 || fault.KindOf(err) != fault.NotFound {
		t.Errorf("%d starts, %v", starts, err)
	}
}

// TestAgentErrorsAreNotRetried checks that the client does not repeat a call after the agent
// has returned an error. This must hold for every code of the error. The client must also keep its
// session.
func TestAgentErrorsAreNotRetried(t *testing.T) {
	for _, code := range []connect.Code{connect.CodeUnavailable, connect.CodeCanceled, connect.CodeInternal, connect.CodeUnknown, connect.CodeInvalidArgument} {
		calls := 0
		c, err := Dial(within(t), evil(t, func(w http.ResponseWriter, r *http.Request) {
			calls++
			connect.NewErrorWriter().Write(w, r, connect.NewError(code, errors.New("EOF: the link was lost")))
		}))
		if err != nil {
			t.Fatal(err)
		}
		before := c.current()
		if _, err := c.Stat(within(t), "/x"); err == nil || calls != 1 || c.current() != before {
			t.Errorf("%v: %d calls, %v", code, calls, err)
		}
		c.Close()
	}
}

// TestFarewell checks that the client uses a new connection after the agent has sent GOAWAY, even
// if the old one is still open.
func TestFarewell(t *testing.T) {
	calls := make(chan string, 10)
	stream := evil(t, func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Query().Get("path")
		calls <- path
		w.Header().Set("Content-Type", "application/octet-stream")
		switch path {
		case "/held":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case "/last":
			w.Header().Set("Connection", "close")
		}
	})
	c, err := Dial(within(t), stream)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	before := c.current()
	ctx := within(t)
	for _, path := range []string{"/held", "/last"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent/?path="+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := before.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		<-calls
	}
	time.Sleep(100 * time.Millisecond) // lets the client read GOAWAY
	if before.broken() {
		t.Fatal("the connection ended with the farewell: the test covered nothing")
	}
	c.Stat(ctx, "/next") // the response does not matter
	select {
	case <-calls:
	default:
		t.Error("the next call did not reach the agent")
	}
}

func TestWrongInputAcknowledgement(t *testing.T) {
	for name, accepted := range map[string]uint64{"less": 2, "more": 1 << 60} {
		handler := byPath(map[string]http.HandlerFunc{
			agentv1connect.AgentServiceExecProcedure: func(w http.ResponseWriter, r *http.Request) {
				answer(event(t, &agentv1.ExecEvent{Started: &agentv1.Started{}}))(w, r)
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			},
			agentv1connect.AgentServiceInputProcedure: connect.NewUnaryHandlerSimple(agentv1connect.AgentServiceInputProcedure,
				func(_ context.Context, _ *agentv1.InputRequest) (*agentv1.InputResponse, error) {
					return &agentv1.InputResponse{Accepted: accepted}, nil
				}).ServeHTTP,
		})
		c, err := Dial(within(t), evil(t, handler))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Exec(within(t), program.Command{Argv: []string{"x"}}, program.Attach{Stdin: strings.NewReader("input")}); fault.KindOf(err) != fault.Corrupt {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
	}
}

// TestFilesOfHostileAgent reads files that are truncated or endless. It checks that a truncated
// file is an error, and that reading an endless file stops at the limit or when the context ends.
func TestFilesOfHostileAgent(t *testing.T) {
	c, err := Dial(within(t), evil(t, func(w http.ResponseWriter, r *http.Request) {
		for i := 0; r.Context().Err() == nil; i++ {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
			if i == 100 && r.URL.Query().Get("path") == "/cut" {
				panic(http.ErrAbortHandler)
			}
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n, err := c.ReadFile(within(t), "/x", 0, 1000, io.Discard); n != 1000 || err != nil {
		t.Errorf("more than requested: got %d, %v", n, err)
	}
	if n, err := c.ReadFile(within(t), "/cut", 0, 0, io.Discard); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a file that was cut short: %d, %v", n, err)
	}
	if _, err := c.ReadFile(expiring(t, 200*time.Millisecond), "/x", 0, 0, io.Discard); fault.KindOf(err) != fault.Timeout {
		t.Errorf("a file without end: %v", err)
	}
}
