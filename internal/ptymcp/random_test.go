package ptymcp

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestKilledAtRandom kills servers, session processes and the tmux server while clients read. Reads
// at a client's own offset must lose no output. Reads with the session's cursor can lose one
// response per killed server. PYRO_TEST_KILLS is the number of rounds.
func TestKilledAtRandom(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("PYRO_TEST_KILLS"))
	if err != nil {
		rounds = 3
	}
	random := testenv.Rand(t, uint64(time.Now().UnixNano()))
	w := newWorld(t, nil)
	for round := range rounds {
		k := &killing{world: w, random: random}
		k.round(t, round%3)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
}

// pieceChars is the maximum size of a read, in characters.
const pieceChars = 200

// killing is one round of the test.
type killing struct {
	*world
	random *rand.Rand
	client *sdk.ClientSession
	killed int // number of killed servers
	read   []*readBoth
}

// readBoth contains the output of a session, read in two ways: with pty_read_at and with pty_read.
type readBoth struct {
	id, name string
	backend  session.Backend
	own      strings.Builder // output from pty_read_at
	at       int64           // offset of the next pty_read
	gaps     int
}

func (k *killing) round(t *testing.T, kind int) {
	c, cmd := k.process(t)
	k.client = c
	for _, backend := range []session.Backend{session.Subprocess, session.Tmux} {
		name := string(backend)
		id := called(t, c, "pty_spawn", args{
			"command": `i=0; while :; do for n in 1 2 3 4 5 6 7 8 9 10; do i=$((i+1)); echo $i; done; read -rt 0.005; done`, "backend": backend, "name": name, "max_output_bytes": 8 << 20,
		})
		k.read = append(k.read, &readBoth{id: id, name: name, backend: backend})
	}
	k.readAll(t, k.moment())
	switch kind {
	case 0: // kill it at a random time
		stop := time.AfterFunc(k.moment(), func() { cmd.Process.Kill() })
		for k.readAll(t, time.Minute) {
		}
		stop.Stop()
		k.killed++
		c.Close()
		k.client, _ = k.process(t)
	case 1:
		for _, r := range k.read {
			folder := session.Folder(filepath.Join(k.root, r.id))
			pid, err := flock.Holder(filepath.Join(string(folder), "keeper.lock"))
			if err != nil {
				t.Fatal(err)
			}
			unix.Kill(pid, unix.SIGKILL)
			k.readAll(t, k.moment())
			testenv.Eventually(t, "the session process has ended", func() bool { return !folder.HasProcess() })
		}
	case 2:
		info, err := k.sessions.Get(k.read[1].id)
		if err != nil {
			t.Fatal(err)
		}
		found, err := info.Folder.Pane(info.Spec).Find(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		unix.Kill(found.Server, unix.SIGKILL)
	}
	k.readAll(t, k.moment())
	for _, r := range k.read {
		k.checkRunning(t, r, kind == 0 || kind == 1 && r.backend == session.Tmux || kind == 2 && r.backend == session.Subprocess)
	}
	k.readAll(t, k.moment())
	k.end(t)
	k.client.Close()
}

func (k *killing) moment() time.Duration { return time.Duration(k.random.IntN(40)) * time.Millisecond }

// checkRunning checks whether a session still runs, as it should. It recovers the session if
// necessary.
func (k *killing) checkRunning(t *testing.T, r *readBoth, should bool) {
	t.Helper()
	for deadline := time.Now().Add(testenv.Patience); ; time.Sleep(2 * time.Millisecond) {
		var st struct {
			Running bool   `json:"running"`
			Reason  string `json:"exit_reason"`
		}
		text, failed := result(t, k.client, "pty_status", args{"session_id": r.id})
		if failed && strings.Contains(text, "pty_recover") {
			text = called(t, k.client, "pty_recover", args{"name": r.name})
		}
		if err := json.Unmarshal([]byte(text), &st); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if st.Running == should && (should || st.Reason == "lost") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %s", r.backend, text)
		}
	}
	for deadline := time.Now().Add(testenv.Patience); ; time.Sleep(time.Millisecond) { // the session process ends later than the session
		_, err := os.Stat(filepath.Join(k.root, r.id, session.SocketName))
		if (err == nil) == should {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: its socket, and it should run: %v, %v", r.backend, should, err)
		}
	}
}

// readAll reads all sessions in turn for the duration d. It reports whether the server is still
// alive.
func (k *killing) readAll(t *testing.T, d time.Duration) bool {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		for _, r := range k.read {
			if !k.readOnce(t, r) {
				return false
			}
		}
	}
	return true
}

func (k *killing) readOnce(t *testing.T, r *readBoth) bool {
	t.Helper()
	ask := func(tool string, a args, answer any) bool {
		a["session_id"], a["owner"], a["max_chars"] = r.id, "me", pieceChars
		got, err := k.client.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: a})
		if err != nil {
			return false
		}
		text := got.Content[0].(*sdk.TextContent).Text
		if err := json.Unmarshal([]byte(text), answer); err != nil || got.IsError {
			t.Fatalf("%s: %s", tool, text)
		}
		return true
	}
	var own readAtResult
	if !ask("pty_read_at", args{"offset": r.own.Len()}, &own) {
		return false
	}
	if own.Text != "" && own.ID != int64(r.own.Len()) || own.Truncated {
		t.Fatalf("at %d: %+v", r.own.Len(), own)
	}
	r.own.WriteString(own.Text)
	var piece chunk
	if !ask("pty_read", args{"format": "json", "timeout_ms": 0}, &piece) {
		return false
	}
	switch gap := piece.ID - r.at; {
	case gap < 0 || gap > pieceChars:
		t.Fatalf("%s: pty_read returned offset %d after offset %d", r.backend, piece.ID, r.at)
	case gap > 0:
		if r.gaps++; r.gaps > k.killed {
			t.Fatalf("%s: %d answers are lost of %d servers that were killed", r.backend, r.gaps, k.killed)
		}
	}
	if want := numbersAt(piece.ID, len(piece.Text)); piece.Text != want {
		t.Fatalf("%s: at %d is %q, not %q", r.backend, piece.ID, piece.Text, want)
	}
	r.at = piece.ID + int64(len(piece.Text))
	return true
}

// numbersAt returns n bytes at an offset of the lines 1, 2, 3 and so on.
func numbersAt(at int64, n int) string {
	for int64(len(allNumbers)) < at+int64(n) {
		lastNumber++
		allNumbers = fmt.Appendf(allNumbers, "%d\r\n", lastNumber)
	}
	return string(allNumbers[at : at+int64(n)])
}

var (
	allNumbers []byte
	lastNumber int
)

// end reads the remaining output, closes the sessions, and checks that nothing is left.
func (k *killing) end(t *testing.T) {
	t.Helper()
	for _, r := range k.read {
		info, err := k.sessions.Get(r.id)
		if err == nil && info.Running() {
			err = info.End(t.Context(), "")
		}
		if err != nil {
			t.Fatal(err)
		}
		log, err := info.Folder.Log(session.Output)
		if err != nil {
			t.Fatal(err)
		}
		whole := log.Len()
		log.Close()
		for int64(r.own.Len()) < whole || r.at < whole {
			if !k.readOnce(t, r) {
				t.Fatal("the server is gone")
			}
		}
		if r.own.String() != numbersAt(0, int(whole)) {
			t.Errorf("%s: output read by offset differs from the printed output", r.backend)
		}
		called(t, k.client, "pty_close", args{"session_id": r.id})
	}
	testenv.Eventually(t, "no process is left", func() bool { return len(k.processes()) == 0 })
	filepath.WalkDir(k.root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type()&(fs.ModeSocket|fs.ModeNamedPipe) != 0 {
			t.Errorf("leftover: %s", path)
		}
		return nil
	})
}
