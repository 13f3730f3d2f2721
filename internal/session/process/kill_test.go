package process

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// reader reads the output of a session while the test kills processes.
type reader struct {
	info session.Info
	log  *program.SharedLog
	at   int64
	text strings.Builder
}

// take reads from the reader's own offset and from the session's cursor. Both reads must return the
// same output in this test.
func (r *reader) take(t *testing.T) {
	t.Helper()
	p, err := r.log.Read(r.at, 1000)
	if err == nil {
		var taken program.Piece
		if taken, err = r.log.Take(len(p.Data)); err == nil && (string(taken.Data) != string(p.Data) || taken.Next != p.Next) {
			t.Errorf("first cursor: got %q up to %d, second: %q up to %d", p.Data, p.Next, taken.Data, taken.Next)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if p.From != r.at || p.Dropped > 0 {
		t.Errorf("a reader at %d gets output at %d", r.at, p.From)
	}
	r.at = p.Next
	r.text.Write(p.Data)
}

// check checks that the output is the numbers from 1 on, each number exactly once. The last line
// can be incomplete.
func (r *reader) check(t *testing.T) (lines int) {
	t.Helper()
	all := strings.Split(r.text.String(), "\r\n")
	for i, line := range all[:len(all)-1] {
		if line != strconv.Itoa(i+1) {
			t.Fatalf("line %d is %q", i+1, line)
		}
	}
	return len(all) - 1
}

// TestKilledAtRandom kills session processes and the tmux server at random times while readers
// read. PYRO_TEST_KILLS is the number of rounds.
func TestKilledAtRandom(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("PYRO_TEST_KILLS"))
	if err != nil {
		rounds = 12
	}
	random := testenv.Rand(t, uint64(time.Now().UnixNano()))
	m := tmuxManager(t)
	for round := range rounds {
		killOnce(t, m, random, round)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
}

// counting limits its own output rate. The session's rate limit would stop the terminal, and Linux
// can then drop the end of a line.
const counting = `i=0; while :; do for n in 1 2 3 4 5 6 7 8 9 10; do i=$((i+1)); echo $i; done; read -rt 0.001; done`

func killOnce(t *testing.T, m *session.Manager, random *rand.Rand, round int) {
	var readers []*reader
	for n := range 2 {
		s := inTmux(counting)
		s.OutputBytes, s.Name = 8<<20, fmt.Sprintf("s%d", n)
		if random.IntN(2) == 0 {
			s.TmuxWorkspace = "w"
		}
		if n == 1 && round%2 == 0 {
			s.Backend = session.Subprocess
		}
		info := spawn(t, m, s)
		l, err := info.Folder.Log(session.Output)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		readers = append(readers, &reader{info: info, log: l})
	}
	read := func(d time.Duration) {
		for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
			for _, r := range readers {
				r.take(t)
			}
		}
	}
	read(time.Duration(random.IntN(30)) * time.Millisecond)
	serverKilled := random.IntN(3) == 0
	found, err := readers[0].info.Folder.Pane(readers[0].info.Spec).Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if serverKilled {
		unix.Kill(found.Server, unix.SIGKILL)
	} else {
		for _, r := range readers {
			unix.Kill(sessionProcessOf(t, r.info), unix.SIGKILL)
		}
	}
	read(time.Duration(random.IntN(30)) * time.Millisecond)
	for _, r := range readers {
		inTmux := r.info.Backend == session.Tmux
		for deadline := time.Now().Add(testenv.Patience); ; time.Sleep(2 * time.Millisecond) {
			now := after(t, m, r.info.ID)
			if lost := !now.Running() && now.Reason == session.Lost; serverKilled == inTmux && lost || !serverKilled && inTmux && (now.Orphaned || now.Recovered) || serverKilled && !inTmux && now.Running() {
				break
			} else if time.Now().After(deadline) {
				t.Fatalf("server killed: %v; %+v", serverKilled, now)
			}
		}
		if inTmux && !serverKilled {
			before := r.log.Len()
			now, err := m.Recover(t.Context(), r.info.Name, "owner")
			if err != nil || now.PID != r.info.PID {
				t.Fatalf("%+v: %v", now, err)
			}
			if err := now.Wait(t.Context(), session.Request{Cursor: before, Timeout: testenv.Patience}); err != nil {
				t.Fatal(err)
			}
			if r.log.Len() <= before {
				t.Error("the recovered session prints nothing")
			}
		}
	}
	read(time.Duration(random.IntN(20)) * time.Millisecond)
	for _, r := range readers {
		if _, err := m.Get(r.info.ID); err != nil {
			t.Error(err)
		}
	}
	if random.IntN(2) == 0 { // the session can end at any point of the output
		for _, r := range readers {
			if now := after(t, m, r.info.ID); now.Running() {
				if err := now.End(t.Context(), ""); err != nil {
					t.Error(err)
				}
			}
		}
		for _, r := range readers {
			for p := int64(-1); p != r.at; {
				p = r.at
				r.take(t)
			}
			if !r.log.Ended() || r.at != r.log.Len() {
				t.Errorf("read up to %d of %d", r.at, r.log.Len())
			}
		}
	}
	for _, r := range readers {
		r.check(t)
	}
	nothingLeft(t, m)
}
