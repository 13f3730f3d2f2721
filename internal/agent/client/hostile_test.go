package client

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/pyro-mcp/pyro/internal/agent/link"
	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/fault"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
	programv1 "github.com/pyro-mcp/pyro/internal/gen/program/v1"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// evil starts an agent that answers every call with the handler. It returns a stream to this agent.
func evil(t testing.TB, handler http.HandlerFunc) net.Conn {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "stream")
		if ends[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: handler, Protocols: &protocols, ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(link.Listen(ends[1]))
	}()
	t.Cleanup(func() {
		ends[0].Close()
		ends[1].Close()
		server.Close()
		<-done
	})
	return ends[0]
}

// answer returns a handler that sends body as a stream of events.
func answer(body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/connect+proto")
		w.Write(body)
	}
}

// envelope encodes one message of a stream: flags, length and content.
func envelope(flags byte, length uint32, content []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flags}, length), content...)
}

func event(t testing.TB, e *agentv1.ExecEvent) []byte {
	t.Helper()
	b, err := proto.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return envelope(0, uint32(len(b)), b)
}

// trial runs a command on an agent with the given handler. It checks how long the command takes and
// how much memory the client uses.
func trial(t *testing.T, handler http.HandlerFunc, patience time.Duration) (string, error) {
	t.Helper()
	c, err := Dial(within(t), evil(t, handler))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out bytes.Buffer
	began := time.Now()
	_, err = c.Exec(ctx, program.Command{Argv: []string{"x"}}, program.Attach{Stdout: &out, Stderr: &out})
	if took := time.Since(began); took > testenv.Patience {
		t.Errorf("it took %v", took)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 16<<20 {
		t.Errorf("it holds %d bytes", held)
	}
	return out.String(), err
}

func TestHostileAgents(t *testing.T) {
	exit := event(t, &agentv1.ExecEvent{Exit: &programv1.Exit{}})
	output := func(at uint64, text string) []byte {
		return event(t, &agentv1.ExecEvent{Outputs: []*agentv1.Output{{Offset: at, Data: []byte(text)}}})
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		out     string
		kind    fault.Kind
	}{
		"missing output":         {answer(append(output(0, "ab"), output(7, "cd")...)), "ab", fault.Corrupt},
		"output again":           {answer(append(output(0, "ab"), output(1, "bc")...)), "ab", fault.Corrupt},
		"an impossible gap":      {answer(event(t, &agentv1.ExecEvent{Gaps: []*agentv1.Gap{{To: 1 << 60}}})), "", fault.Corrupt},
		"an unknown stream":      {answer(event(t, &agentv1.ExecEvent{Outputs: []*agentv1.Output{{Stream: 9, Data: []byte("x")}}})), "", fault.Corrupt},
		"a negative stream":      {answer(event(t, &agentv1.ExecEvent{Outputs: []*agentv1.Output{{Stream: -1, Data: []byte("x")}}})), "", fault.Corrupt},
		"empty output":           {answer(output(0, "")), "", fault.Corrupt},
		"an invalid code":        {answer(event(t, &agentv1.ExecEvent{Exit: &programv1.Exit{Code: 1 << 20}})), "", fault.Corrupt},
		"an end without an exit": {answer(append(output(0, "ab"), envelope(2, 2, []byte("{}"))...)), "ab", fault.Corrupt},
		"a message of 4 GiB":     {answer(envelope(0, 1<<32-1, make([]byte, 100))), "", fault.Corrupt},
		"no message":             {answer(append(envelope(0, 3, []byte{0xff, 0xff, 0xff}), exit...)), "", fault.Corrupt},
		"a message cut short":    {answer(exit[:len(exit)-1]), "", fault.Corrupt},
		"another content":        {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }, "", fault.Corrupt},
		"a redirect to somewhere else": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusTemporaryRedirect)
		}, "", fault.Corrupt},
		"an error without end": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/connect+proto")
			text := `{"error":{"code":"internal","message":"` + strings.Repeat("x", 8<<20) + `"}}`
			w.Write(envelope(2, uint32(len(text)), []byte(text)))
		}, "", fault.Corrupt},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := trial(t, c.handler, testenv.Patience)
			if out != c.out || fault.KindOf(err) != c.kind {
				t.Errorf("output %q, kind %q: %v", out, fault.KindOf(err), err)
			}
			if err != nil && len(err.Error()) > 4*maxText {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

// TestEndlessHeaders uses an agent that sends endless headers. They break the connection on
// either side. Each new session can wait up to a second until the agent's server has closed the
// previous one.
func TestEndlessHeaders(t *testing.T) {
	_, err := trial(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 200 {
			w.Header().Set("X-"+strings.Repeat("a", i), strings.Repeat("v", 4000))
		}
	}, testenv.Patience)
	if kind := fault.KindOf(err); kind != fault.Corrupt && kind != fault.Unavailable {
		t.Errorf("kind %q: %v", kind, err)
	}
}

// TestEndlessAgents uses agents that send nothing, or endlessly the same message. It checks that
// the call ends with its context.
func TestEndlessAgents(t *testing.T) {
	started := event(t, &agentv1.ExecEvent{Started: &agentv1.Started{}})
	for name, handler := range map[string]http.HandlerFunc{
		"silent": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"started again and again": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/connect+proto")
			for r.Context().Err() == nil {
				if _, err := w.Write(started); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := trial(t, handler, 300*time.Millisecond); fault.KindOf(err) != fault.Timeout {
				t.Errorf("kind %q: %v", fault.KindOf(err), err)
			}
		})
	}
}

// FuzzEvents handles events from a hostile agent. It checks that the output that reaches a writer
// is contiguous from offset 0.
func FuzzEvents(f *testing.F) {
	seed := func(events ...*agentv1.ExecEvent) {
		var b []byte
		for _, e := range events {
			b = append(b, event(f, e)...)
		}
		f.Add(b)
	}
	seed(&agentv1.ExecEvent{Started: &agentv1.Started{Pid: 1}, Outputs: []*agentv1.Output{{Data: []byte("one")}}, Exit: &programv1.Exit{Code: 3}})
	seed(&agentv1.ExecEvent{Outputs: []*agentv1.Output{{Offset: 5, Data: []byte("far")}}}, &agentv1.ExecEvent{Gaps: []*agentv1.Gap{{To: 3}}})
	seed(&agentv1.ExecEvent{Exit: &programv1.Exit{Signal: 99, NotRun: strings.Repeat("m", 2000)}})
	f.Fuzz(func(t *testing.T, stream []byte) {
		if len(stream) >= ackEvery {
			return // there is no agent that could receive an acknowledgement
		}
		var written [2]bytes.Buffer
		e := &exec{streams: [2]cursor{{to: &written[0]}, {to: &written[1]}}}
		for len(stream) >= 5 {
			length := int(min(uint32(len(stream)-5), binary.BigEndian.Uint32(stream[1:])))
			var message agentv1.ExecEvent
			if proto.Unmarshal(stream[5:5+length], &message) != nil {
				return
			}
			stream = stream[5+length:]
			exit, err := e.handle(context.Background(), nil, &message)
			for i := range written {
				if e.streams[i].at != uint64(written[i].Len()) {
					t.Fatalf("%d bytes of stream %d have arrived, the cursor is at %d", written[i].Len(), i, e.streams[i].at)
				}
			}
			if exit != nil && (exit.Code < 0 || exit.Code > 255 || exit.Signal < 0 || exit.Signal > 64 || len(exit.NotRun) > 1024 || exit.Duration < 0) {
				t.Fatalf("got an impossible exit: %+v", exit)
			}
			if err != nil || exit != nil {
				return
			}
		}
	})
}

// FuzzAgent uses an agent that answers calls with arbitrary bytes.
func FuzzAgent(f *testing.F) {
	f.Add("application/connect+proto", event(f, &agentv1.ExecEvent{Exit: &programv1.Exit{}}))
	f.Add("application/proto", []byte{8, 1})
	f.Add("application/json", []byte(`{"code":"unavailable"}`))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		c, err := Dial(within(t), evil(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.Write(body)
		}))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx := within(t)
		c.Exec(ctx, program.Command{Argv: []string{"x"}}, program.Attach{})
		c.Status(ctx)
		c.Stat(ctx, "/x")
		c.ReadFile(ctx, "/x", 0, 10, io.Discard)
		c.WriteFile(ctx, FileSpec{Path: "/x", Size: 3}, strings.NewReader("abc"))
		c.List(ctx, "", true, func(listing.Entry) error { return nil })
		c.ReadTree(ctx, "", io.Discard)
		c.Change(ctx, strings.NewReader("abc"), -1)
		if ctx.Err() != nil {
			t.Fatal("it took too long")
		}
	})
}
