package ptymcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// result calls a tool on a server process. It reports whether the call failed.
func result(t testing.TB, c *sdk.ClientSession, tool string, a args) (text string, failed bool) {
	t.Helper()
	a["owner"] = "me"
	r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: a})
	if err != nil {
		t.Errorf("%s: %v", tool, err)
		return "", true
	}
	return r.Content[0].(*sdk.TextContent).Text, r.IsError
}

// TestTwoServers checks that two servers see the same sessions. It also checks that each byte of
// output is returned by exactly one of them.
func TestTwoServers(t *testing.T) {
	w := newWorld(t, nil)
	one, _ := w.process(t)
	two, _ := w.process(t)
	id := called(t, one, "pty_spawn", args{"command": `read -r x; echo "got $x"; for i in $(seq 300); do echo line $i; sleep 0.001; done; echo over; exec sleep 1000`, "name": "n"})
	for tool, a := range map[string]args{"pty_list": {}, "pty_resume": {"name": "n"}, "pty_status": {"session_id": id}} {
		if text := called(t, two, tool, a); !strings.Contains(text, id) {
			t.Errorf("%s: %s", tool, text)
		}
	}
	called(t, two, "pty_attach", args{"session_id": id, "client_id": "a"})
	if text, failed := result(t, one, "pty_write", args{"session_id": id, "data": "x\n"}); !failed || !strings.Contains(text, "client_id is required") {
		t.Errorf("%s", text)
	}
	called(t, one, "pty_write", args{"session_id": id, "data": "x\n", "client_id": "a"})
	called(t, two, "pty_detach", args{"session_id": id, "client_id": "a"})
	var mu sync.Mutex
	var wg sync.WaitGroup
	at, over := map[int64]string{}, false
	for _, c := range []*sdk.ClientSession{one, two, one, two} {
		wg.Go(func() {
			for {
				text, failed := result(t, c, "pty_read", args{"session_id": id, "max_chars": 50, "format": "json", "timeout_ms": 100})
				var piece chunk
				if err := json.Unmarshal([]byte(text), &piece); failed || err != nil {
					t.Errorf("%s: %v", text, err)
					return
				}
				mu.Lock()
				if piece.Text != "" {
					if other, double := at[piece.ID]; double {
						t.Errorf("%q and %q are both at %d", other, piece.Text, piece.ID)
					}
					at[piece.ID] = piece.Text
				}
				over = over || strings.Contains(piece.Text, "over")
				done := over || t.Failed()
				mu.Unlock()
				if done {
					return
				}
			}
		})
	}
	wg.Wait()
	var got strings.Builder
	for text := at[0]; text != ""; text = at[int64(got.Len())] {
		got.WriteString(text)
	}
	want := "x\r\ngot x\r\n"
	for i := 1; i <= 300; i++ {
		want += fmt.Sprintf("line %d\r\n", i)
	}
	if want += "over"; !strings.HasPrefix(got.String(), want) {
		t.Errorf("%q", got.String())
	}
}

// TestCloseEndsWaitingCalls checks that waiting calls return when another server closes the
// session.
func TestCloseEndsWaitingCalls(t *testing.T) {
	w := newWorld(t, nil)
	one, _ := w.process(t)
	two, _ := w.process(t)
	for _, backend := range []string{"subprocess", "tmux"} {
		id := called(t, one, "pty_spawn", args{"command": "echo some; exec sleep 1000", "backend": backend})
		called(t, one, "pty_read_until", args{"session_id": id, "pattern": "some\r\n"})
		var wg sync.WaitGroup
		for tool, a := range map[string]args{
			"pty_read": {"timeout_ms": 60000}, "pty_read_until": {"pattern": "never", "timeout_ms": 60000}, "pty_read_quiescent": {"timeout_ms": 60000, "quiescence_ms": 60000},
			"pty_wait": {"timeout_ms": 60000}, "pty_prompt": {"data": "", "patterns": []string{"never"}, "timeout_ms": 60000},
		} {
			wg.Go(func() {
				a["session_id"] = id
				began := time.Now()
				text, failed := result(t, one, tool, a)
				if took := time.Since(began); took > testenv.Patience || failed && !strings.Contains(text, "unknown session_id") && !strings.Contains(text, "it has ended") {
					t.Errorf("%s, %s: %s after %s", backend, tool, text, took)
				}
			})
		}
		testenv.Eventually(t, backend+": five calls wait", func() bool { return w.connections(t, id) >= 5 })
		called(t, two, "pty_close", args{"session_id": id})
		wg.Wait()
		if text, failed := result(t, one, "pty_status", args{"session_id": id}); !failed || !strings.Contains(text, "unknown session_id") {
			t.Errorf("%s: %s", backend, text)
		}
	}
}

// TestOneServerWins uses a name, then a confirmation, on two servers at the same time. Each time
// only one may succeed.
func TestOneServerWins(t *testing.T) {
	w := newWorld(t, nil)
	one, _ := w.process(t)
	two, _ := w.process(t)
	both := func(tool string, a func() args) (texts []string, ok int) {
		t.Helper()
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, c := range []*sdk.ClientSession{one, two} {
			wg.Go(func() {
				text, failed := result(t, c, tool, a())
				mu.Lock()
				defer mu.Unlock()
				texts = append(texts, text)
				if !failed {
					ok++
				}
			})
		}
		wg.Wait()
		return texts, ok
	}
	for i := range 5 {
		texts, ok := both("pty_spawn", func() args { return args{"command": "exec sleep 1000", "name": fmt.Sprint(i)} })
		if ok != 1 || !strings.Contains(strings.Join(texts, "\n"), "a session with this name is running") {
			t.Errorf("%d have the name: %q", ok, texts)
		}
		var confirmed confirmResult
		text := called(t, one, "confirm_dangerous_command", args{"command": "rm -rf /nonexistent", "justification": "test", "scope": "read-write"})
		if err := json.Unmarshal([]byte(text), &confirmed); err != nil || confirmed.Token == "" {
			t.Fatalf("%s: %v", text, err)
		}
		texts, ok = both("pty_spawn", func() args { return args{"command": "rm -rf /nonexistent", "dangerous_confirm_token": confirmed.Token} })
		if ok != 1 || !strings.Contains(strings.Join(texts, "\n"), "already used") {
			t.Errorf("%d are confirmed by one token: %q", ok, texts)
		}
	}
}

// TestConcurrentCollection removes the same sessions with two servers, while a third server lists
// and starts sessions.
func TestConcurrentCollection(t *testing.T) {
	w := newWorld(t, env{"GC_INTERVAL_SEC": "1000"})
	other := w.restarted(t, env{"GC_INTERVAL_SEC": "1000"})
	for round := range 10 {
		for i := range 20 {
			s := session.Spec{ID: session.NewID(time.Now(), i), Owner: "me", Scope: session.ReadWrite, Command: "true", Cwd: "/", Cols: 1, Rows: 1, Backend: session.Subprocess, OutputBytes: 1, CreatedAt: time.Now()}
			f, err := session.Create(w.root, s)
			if err == nil {
				err = f.SetState(session.State{EndedAt: time.Now(), Reason: session.Exited})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		for _, server := range []*world{w, other, w, other} {
			wg.Go(func() {
				later := time.Now()
				if round%2 == 0 {
					later = later.Add(2 * time.Hour)
				}
				if err := errors.Join(server.sessions.Collect(later), server.forget(5)); err != nil {
					t.Error(err)
				}
				server.text(t, "pty_list", args{})
			})
		}
		wg.Go(func() {
			id := w.spawn(t, "exec sleep 1000")
			w.object(t, "pty_status", args{"session_id": id})
			other.text(t, "pty_close", args{"session_id": id})
		})
		wg.Wait()
		if all, err := w.sessions.List(); err != nil || len(all) > 5 {
			t.Errorf("%d remain: %v", len(all), err)
		}
	}
	w.refused(t, "pty_status", args{"session_id": "1-1-00000000"}, fault.NotFound, "unknown session_id")
}
