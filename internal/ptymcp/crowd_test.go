package ptymcp

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/session"
)

// TestTooManySessions starts sessions at the same time from many clients of several servers.
// Exactly the maximum number of sessions may run, and rejected calls must leave nothing. The folder
// also contains the maximum number of ended sessions. PYRO_TEST_SPAWNS is the number of calls.
func TestTooManySessions(t *testing.T) {
	asked, err := strconv.Atoi(os.Getenv("PYRO_TEST_SPAWNS"))
	if err != nil {
		asked = 100
	}
	const most = 20
	w := newWorld(t, env{"MAX_SESSIONS": strconv.Itoa(most)})
	for i := range maxEnded {
		s := session.Spec{ID: session.NewID(time.Now(), i), Scope: session.ReadWrite, Command: "true", Cwd: "/", Cols: 1, Rows: 1, Backend: session.Subprocess, OutputBytes: 1, CreatedAt: time.Now()}
		f, err := session.Create(w.root, s)
		if err == nil {
			err = f.SetState(session.State{EndedAt: time.Now(), Reason: session.Exited})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	servers := []*world{w, w.restarted(t, nil), w.restarted(t, nil)}
	var spawned atomic.Int64
	var together sync.WaitGroup
	for i := range 45 {
		together.Go(func() {
			_, err := servers[i%len(servers)].try(t, "pty_spawn", args{"command": "exec sleep 1000"})
			switch {
			case err == nil:
				spawned.Add(1)
			case fault.KindOf(err) != fault.Exhausted || !strings.Contains(err.Error(), "too many sessions (max 20)"):
				t.Error(err)
			}
		})
	}
	together.Wait()
	if n := spawned.Load(); n != most {
		t.Errorf("%d sessions of at most %d", n, most)
	}
	folders, processes := w.leftovers(t)
	if len(folders) != maxEnded+most || processes != most {
		t.Errorf("%d folders and %d session processes", len(folders), processes)
	}
	began := time.Now()
	for range asked {
		w.refused(t, "pty_spawn", args{"command": "exec sleep 1000"}, fault.Exhausted, "too many sessions (max 20)")
	}
	t.Logf("%d are refused in %s", asked, time.Since(began))
	if after, processes := w.leftovers(t); strings.Join(after, " ") != strings.Join(folders, " ") || processes != most {
		t.Errorf("%d folders and %d session processes afterwards", len(after), processes)
	}
	// When one session has ended, another can start.
	var id string
	for _, name := range folders {
		if info, err := w.sessions.Get(name); err == nil && info.Running() {
			id = name
		}
	}
	w.text(t, "pty_close", args{"session_id": id})
	servers[1].spawn(t, "exec sleep 1000")
	servers[2].refused(t, "pty_spawn", args{"command": "true"}, fault.Exhausted, "too many sessions (max 20)")
}

// leftovers returns the folders of sessions and the number of session processes.
func (w *world) leftovers(t testing.TB) (folders []string, processes int) {
	t.Helper()
	entries, err := os.ReadDir(w.root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			folders = append(folders, e.Name())
		}
	}
	return folders, len(w.processes())
}
