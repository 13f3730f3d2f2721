//go:build machine

package test

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFollowService follows services on the command line until they end. It also follows them until
// the test sends ctrl-c, until the workspace is paused, and until the supervisor ends.
func TestFollowService(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create("--secret", "KEY=hunter2-hunter2")
	start := func(name, script string) {
		t.Helper()
		p.must("workspace", "service", "start", id, name, "--secret-env", "KEY", "--", "sh", "-c", script)
	}
	follow := func(name string) *running {
		t.Helper()
		return p.start("workspace", "service", "logs", id, name, "-f")
	}
	const steps = `for step in a b; do echo "$step $KEY"; until test -e $step; do sleep 0.05; done; done; echo warned >&2; exit 3`
	start("steps", steps)
	f := follow("steps")
	f.says("a [REDACTED]")
	p.shell(id, ": >a")
	f.says("b [REDACTED]")
	p.shell(id, ": >b")
	if r := f.end(); r.code != 0 || r.stdout != "" || !strings.HasPrefix(r.stderr, "warned\n") || !strings.Contains(r.stderr, " state=exited dropped_bytes=0 exit_code=3\n") {
		t.Errorf("to its end: %+v", r)
	}
	if r := follow("steps").end(); r.code != 0 || r.stdout != "a [REDACTED]\nb [REDACTED]\n" || !strings.Contains(r.stderr, " state=exited ") {
		t.Errorf("of one that has ended: %+v", r)
	}
	if r := p.run(nil, "workspace", "service", "logs", id, "steps", "-f", "--json"); r.code != 2 || !strings.Contains(r.stdout, "--follow and --json exclude each other") {
		t.Errorf("with --json: %+v", r)
	}
	p.fails(3, "no service has this name", "workspace", "service", "logs", id, "none", "-f")

	start("web", "echo up; sleep 1000")
	f = follow("web")
	f.says("up")
	f.Process.Signal(syscall.SIGINT)
	if r := f.end(); r.code != 130 {
		t.Errorf("after ctrl-c: %+v", r)
	}

	f = follow("web")
	f.says("up")
	p.must("workspace", "pause", id)
	if r := f.end(); r.code != 0 || !strings.Contains(r.stderr, " state=paused ") {
		t.Errorf("when it is paused: %+v", r)
	}
	if r := follow("web").end(); r.code != 0 || r.stdout != "up\n" || !strings.Contains(r.stderr, " state=paused ") {
		t.Errorf("when it was paused: %+v", r)
	}
	if state := p.object("workspace", "status", id)["state"]; state != "paused" {
		t.Errorf("it is %s after it was followed", state)
	}
	p.must("workspace", "start", id)

	f = follow("web")
	f.says("up")
	pid, _, _ := p.find(id)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if r := f.end(); r.code == 0 || !strings.Contains(r.stderr, "its supervisor is gone") || time.Since(began) > patience {
		t.Errorf("when its supervisor was killed: %+v", r)
	}
}
