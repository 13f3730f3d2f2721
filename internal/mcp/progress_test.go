package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// heard stores the notifications that a client receives.
type heard struct {
	mu       sync.Mutex
	progress []*sdk.ProgressNotificationParams
	logs     []string
}

func (h *heard) options() *sdk.ClientOptions {
	return &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.progress = append(h.progress, r.Params)
		},
		//lint:ignore SA1019 clients of protocols before 2026-07-28 use it
		LoggingMessageHandler: func(_ context.Context, r *sdk.LoggingMessageRequest) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.logs = append(h.logs, fmt.Sprint(r.Params.Level, " ", r.Params.Data))
		},
	}
}

func (h *heard) messages() (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.progress {
		all = append(all, p.Message)
	}
	return all
}

// printing returns a tool that prints much. With the text "wait", it then waits until reported is
// closed.
func printing(wrote chan<- bool, reported <-chan struct{}) Tool {
	return Bind("print", "Print much.", Runs, []Arg{String("text", "")}, func(ctx context.Context, req words, report func(string)) (words, error) {
		report("begin")
		Warn(ctx, "careful")
		out := Output(ctx)
		wrote <- out != nil
		if out != nil {
			for i := range 10_000 {
				fmt.Fprintf(out, "line %d \x1b\xff\n", i)
			}
		}
		if req.Text == "wait" {
			<-reported
		}
		return words{Text: "done"}, nil
	})
}

// TestProgressOfOutput checks that output is reported in time, but not in one report per line.
// Without a progress token, there must be no reports.
func TestProgressOfOutput(t *testing.T) {
	wrote := make(chan bool, 2)
	h := &heard{}
	reported := make(chan struct{})
	c := newWorld(t, printing(wrote, reported)).client(t, h.options())
	if _, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "print"}); err != nil || <-wrote || len(h.messages()) > 0 {
		t.Errorf("without a token: %q, %v", h.messages(), err)
	}
	p := &sdk.CallToolParams{Name: "print", Arguments: map[string]any{"text": "wait"}}
	p.SetProgressToken("p")
	answered, began := make(chan error, 1), time.Now()
	go func() {
		_, err := c.CallTool(t.Context(), p)
		answered <- err
	}()
	testenv.Eventually(t, "all output is reported", func() bool {
		return slices.ContainsFunc(h.messages(), func(m string) bool { return strings.HasSuffix(m, "line 9999 \n") })
	})
	close(reported)
	if err := <-answered; err != nil || !<-wrote {
		t.Fatal(err)
	}
	m := h.messages()
	if most := 4 + int(time.Since(began)/outputInterval); len(m) < 2 || len(m) > most || m[0] != "begin" {
		t.Errorf("%d messages: %q", len(m), m)
	}
	for i, p := range h.progress {
		if p.Progress != float64(i+1) || len(p.Message) > maxReported || strings.Contains(p.Message, "\x1b") || !utf8.ValidString(p.Message) {
			t.Errorf("%d: %+v", i, p)
		}
	}
}

// TestProgressOfSilence checks that a call without output is reported as running, and that there
// are no reports after its answer.
func TestProgressOfSilence(t *testing.T) {
	w := newWorld(t)
	w.quiet = 20 * time.Millisecond
	h := &heard{}
	c := w.client(t, h.options())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answered := make(chan error, 1)
	go func() {
		p := &sdk.CallToolParams{Name: "wait"}
		p.SetProgressToken(1)
		_, err := c.CallTool(ctx, p)
		answered <- err
	}()
	for deadline := time.Now().Add(testenv.Patience); len(h.messages()) < 5; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%q", h.messages())
		}
	}
	cancel()
	<-w.ended
	<-answered
	var m []string
	testenv.Eventually(t, "the reports end", func() bool {
		m = h.messages()
		time.Sleep(5 * w.quiet)
		return len(h.messages()) == len(m)
	})
	if last := m[len(m)-1]; !strings.HasPrefix(last, "still running after ") {
		t.Errorf("the last report is %q", last)
	}
}

// TestLog checks that steps and warnings are logged only to clients that have set a log level. The
// level applies to a session. Since protocol version 2026-07-28, it applies to one call.
func TestLog(t *testing.T) {
	wrote := make(chan bool, 10)
	h := &heard{}
	w := newWorld(t, printing(wrote, nil))
	c := w.client(t, h.options())
	//lint:ignore SA1019 clients of protocols before 2026-07-28 use it
	if c.InitializeResult().Capabilities.Logging == nil {
		t.Error("no logging capability")
	}
	r := w.raw(t)
	defer r.close()
	r.says(t, initialize)
	for _, row := range []struct{ level, want string }{
		{"", "[]"}, {"error", "[]"}, {"warning", "[warning careful]"}, {"debug", "[info begin warning careful]"},
	} {
		h.logs = nil
		p := &sdk.CallToolParams{Name: "print", Meta: sdk.Meta{}}
		if row.level != "" {
			//lint:ignore SA1019 clients of protocols before 2026-07-28 use it
			p.Meta[sdk.MetaKeyLogLevel] = row.level
		}
		if _, err := c.CallTool(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(testenv.Patience); ; time.Sleep(time.Millisecond) {
			h.mu.Lock()
			got := fmt.Sprint(h.logs)
			h.mu.Unlock()
			if got == row.want {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("level %q: %s", row.level, got)
			}
		}

		if row.level != "" {
			if a := r.says(t, `{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"`+row.level+`"}}`); a.Error != nil {
				t.Fatal(a.Error)
			}
		}
		fmt.Fprintln(r, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"print"}}`)
		var logs []string
		for {
			var said struct {
				ID     any
				Params struct{ Level, Data, Logger string }
			}
			if err := r.answers.Decode(&said); err != nil {
				t.Fatal(err)
			}
			if said.ID != nil {
				break
			}
			logs = append(logs, said.Params.Level+" "+said.Params.Data)
		}
		if got := fmt.Sprint(logs); got != row.want {
			t.Errorf("level %q of a session: %s", row.level, got)
		}
	}
	if a := r.says(t, `{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"loud"}}`); a.Error == nil || a.Error.Code != -32602 {
		t.Errorf("a level that does not exist: %+v", a)
	}
}
