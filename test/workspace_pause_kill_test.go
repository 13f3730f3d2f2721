//go:build machine

package test

import (
	"crypto/rand"
	"fmt"
	mathrand "math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestKilledWhilePausing kills the client, the supervisor and the machine at random moments of
// pauses, resumes and live forks. If a pause was acknowledged, the workspace must resume with all
// programs. Otherwise the workspace must be paused, running or stopped, and its reported state must
// be correct. Nothing must remain.
func TestKilledWhilePausing(t *testing.T) {
	t.Parallel()
	t.Logf("PYRO_TEST_KILLS=%d", kills())
	random := mathrand.New(mathrand.NewSource(int64(testenv.Seed(t, 1))))
	p := workspaces(t)
	v := &pausing{program: p, id: p.create("--mem-mib", "512")}
	v.restartProgram()
	took := map[string]time.Duration{}
	for _, operation := range []string{"pause", "resume", "fork"} {
		v.prepare(operation)
		began := time.Now()
		p.must(v.args(operation)...)
		took[operation] = time.Since(began)
		v.check(operation, "")
	}
	for range kills() {
		for i, operation := range []string{"pause", "resume", "fork"} {
			for _, who := range killed(i) {
				drawn(t, operation+", the "+who, took[operation]*11/10, func(within time.Duration) bool {
					v.prepare(operation)
					return v.kill(operation, who, time.Duration(random.Float64()*float64(within)))
				})
			}
		}
	}
	p.awaitNoPartialWorkspaces("fork", v.id)
}

// pausing is a workspace with a program that stores a word in memory. The word shows whether the
// machine is still the same machine.
type pausing struct {
	*program
	id   string
	word string
	was  string // state of the workspace before the operation
}

// restartProgram starts the program with a new word after a boot of the machine.
func (v *pausing) restartProgram() {
	v.t.Helper()
	v.word = rand.Text()
	v.shell(v.id, "rm -f ask answer; mkfifo ask answer; HELD="+v.word+` setsid sh -c 'exec 3<>ask 4<>answer; while read x <&3; do echo $HELD >&4; done' >/dev/null 2>&1 </dev/null & sleep 0.2`)
}

// alive checks that the program still runs and has the same word.
func (v *pausing) alive(when string) {
	v.t.Helper()
	if got := v.shell(v.id, "exec 4<>answer; echo >ask; timeout 60 head -n 1 <&4"); got != v.word+"\n" {
		v.t.Fatalf("%s: the running program printed %q, want %s", when, got, v.word)
	}
}

func (v *pausing) args(operation string) []string {
	args := []string{"workspace", operation, v.id}
	if operation == "fork" {
		args = append(args, "--live", "--json")
	}
	return args
}

// prepare brings the workspace into the state that an operation needs.
func (v *pausing) prepare(operation string) {
	v.t.Helper()
	if v.stateOf(v.id) == "stopped" {
		v.must("workspace", "start", v.id)
		v.restartProgram()
	}
	if operation == "resume" {
		v.must("workspace", "pause", v.id)
	} else {
		v.must("workspace", "resume", v.id)
	}
	v.was = v.stateOf(v.id)
}

// kill runs an operation and kills a process after a delay. If the operation is a resume, the
// process can be a new one. kill reports whether it killed a process.
func (v *pausing) kill(operation, who string, after time.Duration) bool {
	v.t.Helper()
	supervisor, m, _ := v.find(v.id)
	others := slices.DeleteFunc(v.folders(), func(id string) bool { return id == v.id })
	r := v.interrupt(v.args(operation), after, func(client int, ended <-chan struct{}) int {
		switch {
		case who == "client":
			return client
		case operation == "resume":
			return v.awaitStarting(who, others, ended)
		}
		return victimOf(who, supervisor, m)
	})
	acknowledged := operation
	if !r.acknowledged {
		acknowledged = ""
	}
	what := fmt.Sprintf("%s, the %s killed (%t) after %s: %s", operation, who, r.killed, after.Round(time.Millisecond), r.said)
	v.t.Log(strings.TrimSpace(what))
	v.check(what, acknowledged+" "+who)
	return r.killed
}

// check checks the state of the workspace after the killed processes have ended.
func (v *pausing) check(what, acknowledged string) {
	v.t.Helper()
	state := v.finalState()
	switch {
	case strings.HasPrefix(acknowledged, "pause ") && state != "paused":
		v.t.Fatalf("%s: state is %s, but the pause was acknowledged", what, state)
	case strings.HasSuffix(acknowledged, "client") && state == "stopped", state != "paused" && state != "started" && state != "stopped":
		v.t.Fatalf("%s: it is %s", what, state)
	}
	if state != "stopped" {
		v.alive(what) // also resumes the workspace
	}
	for _, w := range v.list() {
		if other := w["workspace_id"].(string); other != v.id {
			if w["state"] == "started" {
				v.shell(other, "test -p ask")
			}
			v.must("workspace", "delete", other)
		}
	}
	v.must("workspace", "start", v.id)
	if state == "stopped" {
		v.restartProgram()
	}
	// After another pause and resume, no saved state must remain.
	v.must("workspace", "pause", v.id)
	v.alive(what + ", and paused")
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) { // the saved state is deleted in the background
		left := v.memories(v.id)
		if len(left) == 0 {
			break
		}
		if time.Since(began) > patience {
			v.t.Fatalf("%s: left %v", what, left)
		}
	}
}

// finalState returns the state of the workspace after all operations have ended.
func (v *pausing) finalState() string {
	v.t.Helper()
	for before := ""; ; time.Sleep(200 * time.Millisecond) {
		now := v.stateOf(v.id)
		_, _, running := v.find(v.id)
		if key := fmt.Sprint(now, running); key == before && running == (now == "started") {
			return now
		} else {
			before = key
		}
	}
}
