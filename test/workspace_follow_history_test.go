//go:build machine

package test

import (
	"bufio"
	"strings"
	"syscall"
	"testing"
)

// TestFollowHistory follows the commands of a workspace until the test sends ctrl-c. It also
// follows them until the workspace is stopped, paused or deleted, and until the supervisor ends.
func TestFollowHistory(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create()
	follow := func(says ...string) *running {
		t.Helper()
		f := p.start("workspace", "logs", id, "-f")
		f.out = bufio.NewReader(f.out)
		f.shows(says...)
		return f
	}
	slow := p.start("workspace", "exec", id, "--", "sh", "-c", "echo begun; until test -e go; do sleep 0.05; done")
	slow.says("begun")
	f := follow("1  sh -c ", ", running)")
	p.shell(id, "echo two; echo bad >&2; exit 0")
	f.shows("2  sh -c ", "exit code 0 after", "    two", "", "    bad", "")
	p.must("workspace", "file", "write", id, "go", "--text", "")
	f.shows("1  sh -c ", "exit code 0 after", "    begun", "")
	f.Process.Signal(syscall.SIGINT)
	if r := f.end(); r.code != 130 || r.stdout != "" {
		t.Errorf("after ctrl-c: %+v", r)
	}
	if r := slow.end(); r.code != 0 {
		t.Errorf("the command: %+v", r)
	}
	if r := p.run(nil, "workspace", "logs", id, "-f", "--json"); r.code != 2 || !strings.Contains(r.stdout, "--follow and --json exclude each other") {
		t.Errorf("with --json: %+v", r)
	}
	p.fails(3, "", "workspace", "logs", "ws-0123456789ab", "-f")

	kept := []string{"1  sh -c ", "", "    begun", "", "2  sh -c ", "", "    two", "", "    bad", ""}
	ended := func(f *running, when, note string) {
		t.Helper()
		if r := f.end(); r.code != 0 || r.stdout != "" || !strings.Contains(r.stderr, note) {
			t.Errorf("%s: %+v", when, r)
		}
	}
	f = follow(kept...)
	p.must("workspace", "pause", id)
	ended(f, "when it is paused", " state=paused reason=")
	ended(follow(kept...), "when it was paused", " state=paused reason=")
	if state := p.object("workspace", "status", id)["state"]; state != "paused" {
		t.Errorf("it is %s after it was followed", state)
	}

	p.must("workspace", "start", id)
	f = follow(kept...)
	sleeper := p.start("workspace", "exec", id, "--", "sh", "-c", "echo asleep; sleep 1000")
	sleeper.says("asleep")
	p.must("workspace", "stop", id)
	f.shows("3  sh -c ", "", "    asleep", "")
	ended(f, "when it is stopped", ` state=stopped reason="it was stopped"`)
	sleeper.end()
	kept = append(kept, "3  sh -c ", "", "    asleep", "")
	ended(follow(kept...), "when it was stopped", ` state=stopped reason="it was stopped"`)

	p.must("workspace", "start", id)
	f = follow(kept...)
	pid, _, _ := p.find(id)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if r := f.end(); r.code == 0 || !strings.Contains(r.stderr, "its supervisor is gone") {
		t.Errorf("when its supervisor was killed: %+v", r)
	}

	p.must("workspace", "start", id)
	f = follow(kept...)
	p.must("workspace", "delete", id)
	ended(f, "when it is deleted", ` state=stopped reason="it was deleted"`)
}

// shows reads lines. The arguments are pairs of texts. Each line must begin with the first text and
// contain the second text of its pair.
func (r *running) shows(texts ...string) {
	r.t.Helper()
	for ; len(texts) > 0; texts = texts[2:] {
		line, err := r.out.(*bufio.Reader).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, texts[0]) || !strings.Contains(line, texts[1]) {
			r.t.Fatalf("it showed %q, not %q with %q: %v: %s", line, texts[0], texts[1], err, r.stderr)
		}
	}
}
