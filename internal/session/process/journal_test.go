package process

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// play returns the output and the terminal sizes from a recording in asciinema v2 format.
func play(t *testing.T, file string) (text string, sizes []string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	var head struct{ Version, Width, Height, Timestamp int64 }
	if err := json.Unmarshal([]byte(lines[0]), &head); err != nil || head.Version != 2 || head.Width != 80 || head.Height != 24 || time.Since(time.Unix(head.Timestamp, 0)) > time.Minute {
		t.Errorf("%s: %v", lines[0], err)
	}
	last := 0.0
	for _, line := range lines[1:] {
		var event []any
		if err := json.Unmarshal([]byte(line), &event); err != nil || len(event) != 3 {
			t.Fatalf("%s: %v", line, err)
		}
		at, ok := event[0].(float64)
		if !ok || at < last || at > 60 {
			t.Errorf("%s after %g", line, last)
		}
		last = at
		switch event[1] {
		case "o":
			text += event[2].(string)
		case "r":
			sizes = append(sizes, event[2].(string))
		default:
			t.Errorf("%s", line)
		}
	}
	return text, sizes
}

func TestLogs(t *testing.T) {
	for _, backend := range []session.Backend{session.Subprocess, session.Tmux} {
		m := tmuxManager(t)
		s := inTmux(`printf '\303'; sleep 0.1; printf '\251\n'; read -r x; read -r y; printf 'end\377'; exit 3`)
		s.Backend, s.LogFolder = backend, t.TempDir()
		info := spawn(t, m, s)
		until(t, info, "é")
		for _, err := range []error{m.Attach(t.Context(), s.ID, "one"), m.Handoff(t.Context(), s.ID, "one", "two", "why"), m.Takeover(t.Context(), s.ID, "one", "two", ""), m.Detach(t.Context(), s.ID, "one")} {
			if err != nil {
				t.Error(err)
			}
		}
		ask(t, info, session.Request{Op: session.OpResize, Cols: 100, Rows: 50, Client: "one"})
		ask(t, info, session.Request{Op: session.OpInput, Data: []byte("hidden1\nhidden2\n"), Client: "one"})
		text, info := all(t, m, s.ID, session.Output)
		for deadline := time.Now().Add(testenv.Patience); info.Folder.HasProcess() && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond) // wait until the session process has closed the log
		}
		folder := filepath.Join(s.LogFolder, s.ID)
		if raw, err := os.ReadFile(folder + "/" + session.TranscriptName); err != nil || string(raw) != text || !strings.HasSuffix(text, "end\xff") {
			t.Errorf("%s: %q, not %q: %v", backend, raw, text, err)
		}
		if shown, sizes := play(t, folder+"/"+session.CastName); shown != strings.ToValidUTF8(text, "�") || !slices.Equal(sizes, []string{"100x50"}) {
			t.Errorf("%s: %q, %q", backend, shown, sizes)
		}
		raw, err := os.ReadFile(folder + "/" + session.EventsName)
		if err != nil || strings.Contains(string(raw), "hidden") {
			t.Errorf("%s: %s: %v", backend, raw, err)
		}
		var names []string
		for line := range strings.Lines(string(raw)) {
			var e session.Event
			if err := json.Unmarshal([]byte(line), &e); err != nil || e.Session != s.ID || e.Owner != "owner" || time.Since(e.Time) > time.Minute {
				t.Errorf("%s: %v", line, err)
			}
			names = append(names, e.Event)
			switch {
			case e.Event == "write" && (e.Bytes != 16 || e.Client != "one"), e.Event == "exit" && *e.Code != 3,
				e.Event == "handoff" && (e.Client != "one" || e.Target != "two" || e.Reason != "why"), e.Event == "takeover" && (e.Client != "one" || e.From != "two"):
				t.Errorf("%s", line)
			}
		}
		if want := []string{"spawn", "attach", "handoff", "takeover", "detach", "resize", "write", "exit"}; !slices.Equal(names, want) {
			t.Errorf("%s: %q, not %q", backend, names, want)
		}
		if info.LogError != "" {
			t.Error(info.LogError)
		}
	}
}

// TestClosedByClient checks that the log names the client that closed a session.
func TestClosedByClient(t *testing.T) {
	m := manager(t)
	s := spec("sleep 1000")
	s.LogFolder = t.TempDir()
	info := spawn(t, m, s)
	if err := m.CloseFor(t.Context(), info.ID, "one"); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(s.LogFolder, s.ID, session.EventsName))
	if err != nil || !strings.Contains(string(raw), `"event":"close","session_id":"`+s.ID+`","client_id":"one"`) {
		t.Errorf("%s, %v", raw, err)
	}
}
