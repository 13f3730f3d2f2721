//go:build machine

package test

import (
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"
)

// detach starts a shell script in the background, and returns its number.
func (p *program) detach(id, script string) string {
	p.t.Helper()
	return strings.TrimSpace(p.must("workspace", "exec", "-dq", id, "--", "sh", "-c", script))
}

// TestDetachedCommand reads, follows and ends commands in the background. They continue through a
// pause, and end with their machine.
func TestDetachedCommand(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create("--secret", "KEY=hunter2-hunter2")
	const steps = `for step in a b c; do echo "$step $KEY"; until test -e $step; do sleep 0.05; done; done; echo warned >&2; exit 3`
	n := strings.TrimSpace(p.must("workspace", "exec", "-dq", id, "--secret-env", "KEY", "--", "sh", "-c", steps))

	f := p.start("workspace", "logs", id, n, "-f")
	f.says("a [REDACTED]")
	f.Process.Kill()
	f.end()
	p.shell(id, ": >a")
	f = p.start("workspace", "logs", id, n, "-f")
	f.says("a [REDACTED]")
	f.says("b [REDACTED]")
	p.must("workspace", "pause", id)
	if r := f.end(); r.code != 0 || !strings.Contains(r.stderr, " state=paused ") {
		t.Errorf("when it is paused: %+v", r)
	}
	if ps := p.must("workspace", "ps", id); !strings.Contains(ps, n+"        paused ") || p.stateOf(id) != "paused" {
		t.Errorf("while it is paused: %s", ps)
	}
	wait := p.start("workspace", "wait", id, n) // resumes it
	p.shell(id, ": >b; : >c")
	if r := wait.end(); r.code != 3 || !strings.Contains(r.stderr, " state=exited exit_code=3 ") {
		t.Errorf("wait: %+v", r)
	}
	if r := p.run(nil, "workspace", "logs", id, n); r.stdout != "a [REDACTED]\nb [REDACTED]\nc [REDACTED]\n" || !strings.HasPrefix(r.stderr, "warned\n") {
		t.Errorf("its output: %+v", r)
	}

	n = p.detach(id, "echo ready; setsid sleep 1111.5 & sleep 1111.5")
	p.must("workspace", "pause", id)
	if r := p.run(nil, "workspace", "kill", id, n); r.code != 0 || !strings.Contains(r.stderr, " state=exited exit_code=137 ") {
		t.Errorf("kill: %+v", r)
	}
	p.awaitNoProcess(id, "1111.5")

	n = p.detach(id, "echo ready; sleep 1111.5")
	f = p.start("workspace", "logs", id, n, "-f")
	f.says("ready")
	p.must("workspace", "stop", id)
	if r := f.end(); r.code != 0 || !strings.Contains(r.stderr, " state=interrupted ") {
		t.Errorf("when it is stopped: %+v", r)
	}
	p.fails(125, "the end of the command is unknown", "workspace", "wait", id, n)
	if p.must("workspace", "start", id); strings.Contains(p.must("workspace", "ps", id), "sleep") {
		t.Error("it runs after a start")
	}

	n = p.detach(id, "echo ready; sleep 1111.5")
	wait = p.start("workspace", "wait", id, n)
	supervisor, _ := p.processes(id)
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait.end()
	if err := gone(supervisor); err != nil {
		t.Fatal(err)
	}
	p.must("workspace", "start", id)
	if r := p.run(nil, "workspace", "logs", id, n); !strings.Contains(r.stderr, ` state=interrupted reason="its machine ended"`) {
		t.Errorf("when its supervisor was killed: %+v", r)
	}
	p.must("workspace", "reset", id)
	p.fails(3, "the history has no command "+n, "workspace", "logs", id, n)
}

// TestExecEndsWithItsClient checks that a command ends when its client is killed, when its client
// closes the connection, and when its client cancels the call.
func TestExecEndsWithItsClient(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create()
	runs := func(argument string) {
		t.Helper()
		for began := time.Now(); !strings.Contains(p.must("workspace", "ps", id), argument); {
			if time.Since(began) > patience {
				t.Fatalf("%s does not run", argument)
			}
		}
	}
	p.start("workspace", "exec", id, "--", "sleep", "1111.1")
	client := p.start("workspace", "exec", id, "--", "sleep", "1111.2")
	runs("1111.1")
	runs("1111.2")
	client.Process.Kill()
	client.end()
	p.awaitNoProcess(id, "1111.2")

	serve := func(args ...string) (in io.WriteCloser, leave func()) {
		r := &running{Cmd: p.command(args...), t: t}
		in, err := r.StdinPipe()
		var out io.ReadCloser
		if err == nil {
			out, err = r.StdoutPipe()
		}
		if err == nil {
			err = r.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Process.Kill(); r.Wait() })
		return in, func() { in.Close(); out.Close() }
	}
	in, leave := serve("rpc")
	fmt.Fprintf(in, `{"jsonrpc":"2.0","id":1,"method":"exec_workspace","params":{"workspace_id":%q,"argv":["sleep","1111.3"],"timeout_seconds":600}}`+"\n", id)
	runs("1111.3")
	leave()
	p.awaitNoProcess(id, "1111.3")

	in, leave = serve("mcp", "serve")
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for i, argument := range []string{"1111.4", "1111.5"} {
		fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"workspace_exec","arguments":{"workspace_id":%q,"command":"exec sleep %s","timeout_seconds":600}}}`+"\n", i+2, id, argument)
		runs(argument)
	}
	fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	p.awaitNoProcess(id, "1111.4")
	runs("1111.5")
	leave()
	p.awaitNoProcess(id, "1111.5")
	runs("1111.1") // the client of this command is still connected
}
