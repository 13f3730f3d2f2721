//go:build machine

package test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestPausedWorkspace runs all operations after which a paused workspace stays paused, and the
// operations that change its state.
func TestPausedWorkspace(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create()
	const look = `cat kept /root/kept 2>&1; cat /proc/[0-9]*/comm | grep -c sleep || true`
	p.shell(id, "echo one >kept; echo one >/root/kept; setsid sleep 4321 >/dev/null 2>&1 </dev/null &")
	p.pause(id)
	for _, args := range [][]string{{"status"}, {"snapshot", "list"}, {"logs"}, {"snapshot", "create", "--name", "x"}, {"service", "list"}} {
		if args[len(args)-1] == "x" {
			args = []string{"snapshot", "create", id, "files"}
		} else {
			args = append(args, id)
		}
		p.must(append([]string{"workspace"}, args...)...)
		if len(args) > 2 && p.stateOf(id) != "paused" {
			t.Errorf("after %v it is not paused", args)
		}
	}
	for _, path := range []string{"kept", "/root/kept"} { // files in the root file system are not served, because they could be only in the saved state
		r := p.run(nil, "workspace", "disk", "read", id, path)
		if r.stdout != "one\n" && (path == "kept" || !strings.Contains(r.stderr, "it is paused, and its changes outside of /workspace are in its memory")) {
			t.Errorf("%s on the disk of a paused one: %+v", path, r)
		}
	}
	cold := strings.TrimSpace(p.must("workspace", "fork", id, "--id-only"))
	if got := p.shell(cold, look); got != "one\none\n0\n" {
		t.Errorf("a fork that is not live: %q", got)
	}
	p.must("workspace", "snapshot", "create", id, "all", "--full")
	if p.stateOf(id) != "paused" {
		t.Error("a snapshot resumed it")
	}
	live := strings.TrimSpace(p.must("workspace", "fork", id, "--live", "--id-only"))
	if p.stateOf(id) != "paused" {
		t.Error("a live fork of a paused one woke it")
	}
	for who, one := range map[string]string{"a live fork": live, "the source": id} {
		if got := p.shell(one, look); got != "one\none\n1\n" {
			t.Errorf("%s: %q", who, got)
		}
	}
	p.shell(id, "echo two >kept; echo two >/root/kept")
	p.pause(id)
	if w := p.object("workspace", "reset", id, "--snapshot", "all"); w["state"] != "started" {
		t.Errorf("reset: %v", w)
	}
	if got := p.shell(id, look); got != "one\none\n0\n" {
		t.Errorf("after a reset: %q", got)
	}
	p.pause(id)
	p.must("workspace", "reset", id, "--snapshot", "files")
	if got := p.shell(id, "cat kept; ls /root"); got != "one\n" {
		t.Errorf("after a reset of the files: %q", got)
	}
}

// TestAutoPause checks that only unused workspaces are paused. The next operation must succeed at
// any moment.
func TestAutoPause(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := workspaces(t)
	id := p.create("--auto-pause-seconds=1")
	p.shell(id, counting)
	paused := func(when string) {
		t.Helper()
		testenv.Eventually(t, "it is paused "+when, func() bool { return p.stateOf(id) == "paused" })
	}
	paused("after a command")
	// The state is visible before the reason.
	testenv.Eventually(t, "its status says why it is paused", func() bool {
		w := p.object("workspace", "status", id)
		return w["state_reason"] == "it was not used for 1 s" && w["auto_pause_seconds"] == 1.0
	})

	// A running operation must prevent a pause, even if there is no traffic.
	supervisor := 0
	used := func(when string, done <-chan result) result {
		t.Helper()
		for {
			select {
			case r := <-done:
				return r
			default:
			}
			if now, _, running := p.find(id); running && supervisor == 0 {
				supervisor = now
			} else if running && now != supervisor {
				t.Errorf("%s it was paused", when)
				supervisor = now
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	begin := func(cmd *running) <-chan result {
		done := make(chan result, 1)
		go func() { done <- cmd.end() }()
		return done
	}
	if r := used("during a command", begin(p.start("workspace", "exec", "-q", id, "--timeout-seconds=600", "--", "sh", "-c", "sleep 4; echo done"))); r.code != 0 || r.stdout != "done\n" {
		t.Errorf("a long command: %+v", r)
	}
	shell := p.openShell(id)
	paused("after a shell was opened") // otherwise it can be paused before the client is attached
	supervisor = 0
	cmd, in, _ := p.attach(id, shell)
	attached := make(chan result, 1)
	go func() {
		time.Sleep(3 * time.Second) // no input and no output for some time
		fmt.Fprint(in, "echo $((6*7))\r")
		p.awaitShell(id, shell, "42")
		fmt.Fprint(in, "\x1d")
		cmd.Wait()
		attached <- result{}
	}()
	used("with an attached client", attached)
	paused("after the client detached")

	// Run operations close to the moment of a pause.
	for i := range 10 {
		time.Sleep(time.Second + time.Duration(i-6)*20*time.Millisecond)
		word := fmt.Sprint("word", i)
		p.must("workspace", "file", "write", id, "f", "--text", word)
		if got := p.must("workspace", "file", "read", id, "f"); got != word {
			t.Errorf("%q, not %q", got, word)
		}
	}
	last := p.counted(id, "after all of that")
	p.countsOn(id, last, "after all of that")
}

// TestForkOfPausedWorkspace checks that services continue in forks of a paused workspace and that
// their output is not lost.
func TestForkOfPausedWorkspace(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create()
	p.must("workspace", "service", "start", id, "counter", "--", "sh", "-c", "n=0; while :; do n=$((n+1)); echo $n; sleep 0.05; done")
	testenv.Eventually(t, "the service has printed two lines", func() bool { return strings.HasPrefix(p.must("workspace", "service", "logs", id, "counter"), "1\n2\n") })
	p.object("workspace", "pause", id)
	fork := strings.TrimSpace(p.must("workspace", "fork", id, "--live", "--id-only"))
	if s := p.object("workspace", "service", "status", fork, "counter"); s["state"] != "running" {
		t.Errorf("in the fork it is %v", s)
	}
	logs := p.run(nil, "workspace", "service", "logs", fork, "counter")
	if logs.code != 0 || !strings.HasPrefix(logs.stdout, "1\n2\n") {
		t.Errorf("in the fork it has printed %.100q: %s", logs.stdout, logs.stderr)
	}
	p.object("workspace", "resume", id)
	if s := p.object("workspace", "service", "status", id, "counter"); s["state"] != "running" {
		t.Errorf("in the source it is %v", s)
	}
}

// TestReplacedProgramIsNotPaused replaces the program pyro while a workspace runs. The new version
// could not resume the workspace. So the workspace must not be paused and must continue to run.
func TestReplacedProgramIsNotPaused(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	folder := t.TempDir()
	install := func() {
		t.Helper()
		for _, name := range []string{"pyro", "pyro-runsc"} {
			content, err := os.ReadFile(fromBin(t, name))
			path := filepath.Join(folder, name)
			if err == nil {
				err = errors.Join(testenv.WriteProgram(path+".new", content), os.Rename(path+".new", path))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	run := func(args ...string) (string, error) {
		t.Helper()
		argv := append([]string{filepath.Join(folder, "pyro")}, args...)
		cmd := p.with("PYRO_RUNSC", filepath.Join(folder, "pyro-runsc")).programFor(patience, argv...)
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		return out.String() + errs.String(), err
	}
	install()
	said, err := run("workspace", "create", environment, "--id-only")
	if err != nil {
		t.Fatal(said)
	}
	id, _, _ := strings.Cut(said, "\n")
	if said, err := run("workspace", "pause", id); err != nil {
		t.Error(said)
	}
	if said, err := run("workspace", "resume", id); err != nil {
		t.Error(said)
	}
	install()
	if said, err := run("workspace", "pause", id); err == nil || !strings.Contains(said, "was replaced since the machine was started") || !strings.Contains(said, "pyro workspace stop "+id) {
		t.Errorf("%v: %s", err, said)
	}
	if said, err := run("workspace", "exec", id, "--", "echo", "here"); err != nil || !strings.Contains(said, "here") || p.stateOf(id) != "started" {
		t.Errorf("%v: %s", err, said)
	}
	if said, err := run("workspace", "delete", id); err != nil {
		t.Error(said)
	}
}
