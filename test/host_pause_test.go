//go:build machine

package test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/gen/hostagent/v1/hostagentv1connect"
)

// said runs a shell script in a sandbox and returns the output of the script.
func said(ctx context.Context, t *testing.T, c hostagentv1connect.HostAgentServiceClient, sandbox, script string) string {
	t.Helper()
	r, err := c.Exec(ctx, connect.NewRequest(&pb.ExecRequest{SandboxId: sandbox, Cmd: "sh", Args: []string{"-c", script}, TimeoutSec: 600}))
	if err != nil || r.Msg.ExitCode != 0 {
		t.Fatalf("%s: %s: %v %v", sandbox, script, r, err)
	}
	return strings.TrimSpace(string(r.Msg.Stdout))
}

// hostCounting starts a program in the background that writes consecutive numbers to a file.
const hostCounting = `setsid sh -c 'n=0; while :; do n=$((n+1)); echo $$ $n; sleep 0.05; done' >/tmp/counted 2>&1 </dev/null & until [ -s /tmp/counted ]; do sleep 0.05; done; head -n 1 /tmp/counted`

// counts waits until hostCounting has written more lines. It checks that one process has written
// all lines and that no number is missing.
func counts(ctx context.Context, t *testing.T, c hostagentv1connect.HostAgentServiceClient, sandbox, begun string) {
	t.Helper()
	pid := strings.Fields(begun)[0]
	got := said(ctx, t, c, sandbox, `before=$(wc -l </tmp/counted); until [ $(wc -l </tmp/counted) -gt $before ]; do sleep 0.05; done; head -c -1 /tmp/counted`)
	for i, line := range strings.Split(got, "\n") {
		if want := fmt.Sprint(pid, " ", i+1); line != want {
			t.Fatalf("%s: counted %q, want %q", sandbox, line, want)
		}
	}
}

// TestHostAgentPauses checks pauses by calls and pauses because of inactivity. It restarts the host
// agent in between.
func TestHostAgentPauses(t *testing.T) {
	t.Parallel()
	p := workspaces(t).with("PYRO_HOST_TOKEN", hostToken)
	agent, address := p.serveHost()
	c := hostClient(t, address)
	ctx, cancel := context.WithTimeout(t.Context(), 10*patience)
	defer cancel()
	if _, err := c.CreateSandbox(ctx, connect.NewRequest(&pb.CreateSandboxRequest{SandboxId: "one"})); err != nil {
		t.Fatal(err)
	}
	begun := said(ctx, t, c, "one", hostCounting)
	said(ctx, t, c, "one", "echo kept >/srv/kept; echo kept >/workspace/kept")
	if _, err := c.PauseSandbox(ctx, connect.NewRequest(&pb.PauseSandboxRequest{SandboxId: "one"})); err != nil {
		t.Fatal(err)
	}
	agent.Process.Signal(syscall.SIGKILL)
	agent.Wait()
	agent, address = p.serveHost()
	c = hostClient(t, address)
	all, err := c.ListSandboxes(ctx, connect.NewRequest(&pb.ListSandboxesRequest{}))
	if err != nil || len(all.Msg.Sandboxes) != 1 || all.Msg.Sandboxes[0].Status != "paused" || len(all.Msg.AutoPausedSandboxIds) != 0 {
		t.Fatalf("%v %v", all, err)
	}
	if _, err := c.ReadFile(ctx, connect.NewRequest(&pb.ReadFileRequest{SandboxId: "one", Path: "/srv/kept"})); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("a file of a paused sandbox: %v", err)
	}
	if r, err := c.ResumeSandbox(ctx, connect.NewRequest(&pb.ResumeSandboxRequest{SandboxId: "one", TimeoutSec: 2})); err != nil || r.Msg.Status != "running" {
		t.Fatalf("%v %v", r, err)
	}
	var cursor int64
	for cursor == 0 {
		all, err := c.ListSandboxes(ctx, connect.NewRequest(&pb.ListSandboxesRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		if cursor = all.Msg.AutoPausedCursor; cursor != 0 && (all.Msg.Sandboxes[0].Status != "paused" || all.Msg.AutoPausedSandboxIds[0] != "one") {
			t.Errorf("%v", all)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if all, err := c.ListSandboxes(ctx, connect.NewRequest(&pb.ListSandboxesRequest{AutoPausedUntil: cursor})); err != nil || len(all.Msg.AutoPausedSandboxIds) != 0 {
		t.Errorf("reported twice: %v %v", all, err)
	}
	if _, err := c.ResumeSandbox(ctx, connect.NewRequest(&pb.ResumeSandboxRequest{SandboxId: "one"})); err != nil {
		t.Fatal(err)
	}
	counts(ctx, t, c, "one", begun)
	if got := said(ctx, t, c, "one", "cat /srv/kept /workspace/kept"); got != "kept\nkept" {
		t.Errorf("kept is %q", got)
	}
	if _, err := c.PauseSandbox(ctx, connect.NewRequest(&pb.PauseSandboxRequest{SandboxId: "one"})); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Terminate(ctx, connect.NewRequest(&pb.TerminateRequest{})); err != nil { // also ends paused sandboxes
		t.Error(err)
	}
	if end := agent.end(); end.code != 0 {
		t.Errorf("after Terminate: %+v", end)
	}
	if r := p.run(nil, "workspace", "list", "--json"); !strings.Contains(r.stdout, `"workspaces": []`) {
		t.Errorf("left: %s", r.stdout)
	}
}
