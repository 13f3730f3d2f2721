package rpc

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// patience is the maximum time that tests wait for an event.
var patience = testenv.Patience

type inner struct {
	Name string `json:"name"`
}

type words struct {
	Text   string            `json:"text,omitempty"`
	Number int               `json:"number,omitempty"`
	Pairs  map[string]string `json:"pairs,omitempty"`
	List   []inner           `json:"list,omitempty"`
	Hidden io.Reader         `json:"-"`
}

// world is a server that has methods for tests.
type world struct {
	*Server
	began, ended chan error    // receives two values for each call of wait or print: nil at its start, and its error at its end
	finish       chan struct{} // ends calls of work, which also use began
}

// newWorld starts a server. At the end of the test, it checks for leaked goroutines.
func newWorld(t testing.TB) *world {
	t.Helper()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // discard the logs of panics
	before := goleak.IgnoreCurrent()
	w := &world{began: make(chan error, 1000), ended: make(chan error, 1000), finish: make(chan struct{})}
	w.Server = NewServer([]Method{
		Bind("echo", "", func(_ context.Context, req words, _ *Call) (words, error) { return req, nil }),
		Bind("fail", "", func(context.Context, words, *Call) (*words, error) {
			return nil, fault.New(fault.NotFound, "look", "ws-1", "it is not there").WithHint("look elsewhere")
		}),
		Bind("panic", "", func(context.Context, words, *Call) (any, error) { panic("at the disco") }),
		Bind("odd", "", func(context.Context, words, *Call) (any, error) { return func() {}, nil }),
		Bind("wait", "", func(ctx context.Context, _ words, _ *Call) (any, error) {
			w.began <- nil
			<-ctx.Done()
			w.ended <- context.Cause(ctx)
			return nil, context.Cause(ctx)
		}),
		Bind("work", "", func(ctx context.Context, _ words, _ *Call) (string, error) {
			w.began <- nil
			select {
			case <-w.finish:
				return "worked", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}),
		Bind("tell", "", func(_ context.Context, _ words, c *Call) (words, error) {
			for i := range int64(1000) {
				c.Report(progress.Event{Phase: "one", Subject: "x", Done: i, Total: 999})
			}
			c.Report(progress.Event{Phase: "two", Subject: "x"})
			return words{Text: "told"}, nil
		}).Notifying(Progress),
		Bind("print", "", func(_ context.Context, req words, c *Call) (any, error) {
			if c.Stdout == nil {
				return "it is not asked for", nil
			}
			w.began <- nil
			for range req.Number {
				if _, err := io.WriteString(c.Stdout, req.Text); err != nil {
					w.ended <- err
					return nil, err
				}
			}
			io.WriteString(c.Stderr, "\xe2\x82") // the first bytes of €
			w.ended <- nil
			return "printed", nil
		}).Notifying(Output),
	})
	w.patience, w.drain = time.Second, time.Second
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	return w
}

// heard is a message from the server, of any kind.
type heard struct {
	ID     any
	Method string
	Params struct {
		ID                            any
		Phase, Stream, Data, Encoding string
		Done, Total                   int64
	}
	Result any
	Error  *failure
}

// peer is a client that sends and receives lines.
type peer struct {
	t        *testing.T
	say      io.WriteCloser
	hear     *io.PipeReader
	reported *json.Decoder
	served   chan error
}

// connect serves a client until ctx is done, the connection closes or the test ends.
func (w *world) connect(ctx context.Context, t *testing.T) *peer {
	t.Helper()
	in, say := io.Pipe()
	hear, out := io.Pipe()
	p := &peer{t, say, hear, json.NewDecoder(hear), make(chan error, 1)}
	go func() { p.served <- w.Serve(ctx, in, out) }()
	t.Cleanup(func() {
		say.Close()
		hear.Close()
		select {
		case err := <-p.served:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("Serve has not returned")
		}
	})
	return p
}

// says sends lines to the server.
func (p *peer) says(lines string) {
	p.t.Helper()
	if _, err := io.WriteString(p.say, lines+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

// receive returns the next message from the server.
func (p *peer) receive() (h heard) {
	p.t.Helper()
	if err := p.reported.Decode(&h); err != nil {
		p.t.Fatal(err)
	}
	return h
}

func (p *peer) call(id int, method, params string) {
	p.t.Helper()
	p.says(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params))
}

func soon(t *testing.T, c <-chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(patience):
		t.Fatal("timeout")
		return nil
	}
}

// FuzzServe sends arbitrary input to a server. Each answer must be one line of JSON, and all calls
// must end.
func FuzzServe(f *testing.F) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	s := NewServer([]Method{
		Bind("echo", "", func(_ context.Context, req words, c *Call) (words, error) {
			if c.Stdout != nil {
				io.WriteString(c.Stdout, req.Text)
				c.Report(progress.Event{Phase: req.Text})
			}
			return req, nil
		}),
		Bind("wait", "", func(ctx context.Context, _ struct{}, _ *Call) (any, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}),
	})
	s.patience = 100 * time.Millisecond
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"echo","params":{"text":"x","stream":true,"window":1,"pairs":{"a":"b"},"list":[{"name":"n"}]}}`))
	f.Add([]byte("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"wait\"}\n{\"jsonrpc\":\"2.0\",\"method\":\"cancel\",\"params\":{\"id\":1}}\n[]\n\xff"))
	f.Add([]byte(`{"jsonrpc":"2.0","id":{},"method":"echo","params":[]}` + "\r\n\n" + `{"jsonrpc":"2.0","method":"consumed","params":{"id":1,"bytes":-1}}`))
	f.Fuzz(func(t *testing.T, sent []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var output bytes.Buffer
		if err := s.Serve(ctx, io.NopCloser(bytes.NewReader(sent)), closer{&output}); err != nil || ctx.Err() != nil {
			t.Error(err, ctx.Err())
		}
		for line := range strings.Lines(output.String()) {
			var h struct {
				JSONRPC string
				ID      json.RawMessage
				Method  string
				Result  json.RawMessage
				Error   *failure
			}
			if err := json.Unmarshal([]byte(line), &h); err != nil || h.JSONRPC != "2.0" || !strings.HasSuffix(line, "\n") {
				t.Errorf("%q: %v", line, err)
			}
			if (h.Method != "") == (h.Result != nil || h.Error != nil) || h.Result != nil && h.Error != nil || strings.Contains(line, "goroutine ") {
				t.Errorf("%q", line)
			}
		}
	})
}

type closer struct{ io.Writer }

func (closer) Close() error { return nil }

// decode returns the bytes in an output notification.
func decode(t *testing.T, h heard) []byte {
	t.Helper()
	if h.Params.Encoding == "utf-8" {
		return []byte(h.Params.Data)
	}
	b, err := base64.StdEncoding.DecodeString(h.Params.Data)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
