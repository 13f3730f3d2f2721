//go:build machine

package test

import (
	"context"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/gen/hostagent/v1/hostagentv1connect"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestHostAgentIsKilledAtRandom kills the host agent at random moments of its operations. After a
// restart of the host agent, the sandbox must work and be in the old or in the new state.
// Acknowledged operations must have succeeded. At the end nothing must remain.
func TestHostAgentIsKilledAtRandom(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := workspaces(t).with("PYRO_HOST_TOKEN", hostToken)
	agent, address := p.serveHost()
	c := hostClient(t, address)
	ctx, cancel := context.WithTimeout(t.Context(), 6*patience)
	defer cancel()
	const template = "22222222-2222-2222-2222-222222222222"
	random := testenv.Rand(t, 8)
	ask := map[string]func(hostagentv1connect.HostAgentServiceClient) error{
		"create": func(c hostagentv1connect.HostAgentServiceClient) error {
			_, err := c.CreateSandbox(ctx, connect.NewRequest(&pb.CreateSandboxRequest{SandboxId: "x"}))
			return err
		},
		"create from it": func(c hostagentv1connect.HostAgentServiceClient) error {
			_, err := c.CreateSandbox(ctx, connect.NewRequest(&pb.CreateSandboxRequest{SandboxId: "x", TemplateId: template}))
			return err
		},
		"pause": func(c hostagentv1connect.HostAgentServiceClient) error {
			_, err := c.PauseSandbox(ctx, connect.NewRequest(&pb.PauseSandboxRequest{SandboxId: "x"}))
			return err
		},
		"resume": func(c hostagentv1connect.HostAgentServiceClient) error {
			_, err := c.ResumeSandbox(ctx, connect.NewRequest(&pb.ResumeSandboxRequest{SandboxId: "x"}))
			return err
		},
		"snapshot": func(c hostagentv1connect.HostAgentServiceClient) error {
			_, err := c.CreateSnapshot(ctx, connect.NewRequest(&pb.CreateSnapshotRequest{SandboxId: "x", TemplateId: template}))
			return err
		},
		"flatten": func(c hostagentv1connect.HostAgentServiceClient) error {
			_, err := c.FlattenRootfs(ctx, connect.NewRequest(&pb.FlattenRootfsRequest{SandboxId: "x", TemplateId: template}))
			return err
		},
		"destroy": func(c hostagentv1connect.HostAgentServiceClient) error {
			_, err := c.DestroySandbox(ctx, connect.NewRequest(&pb.DestroySandboxRequest{SandboxId: "x"}))
			return err
		},
		"delete": func(c hostagentv1connect.HostAgentServiceClient) error {
			_, err := c.DeleteSnapshot(ctx, connect.NewRequest(&pb.DeleteSnapshotRequest{TemplateId: template}))
			return err
		},
	}
	// killed kills the host agent during a call. After the restart, it repeats the call. No
	// operation must be incomplete.
	killed := func(op string, within time.Duration) {
		t.Helper()
		said := make(chan error, 1)
		go func() { said <- ask[op](c) }()
		time.Sleep(time.Duration(random.Int64N(int64(within))))
		agent.Process.Signal(syscall.SIGKILL)
		agent.Wait()
		first := <-said
		agent, address = p.serveHost()
		c = hostClient(t, address)
		again := ask[op](c)
		for connect.CodeOf(again) == connect.CodeUnavailable { // a supervisor has not finished an operation yet
			again = ask[op](c)
		}
		if gone := op == "delete" && connect.CodeOf(again) == connect.CodeNotFound; again != nil && !gone {
			t.Fatalf("%s: first %v, and when it was back %v", op, first, again)
		}
	}
	state := func() string {
		t.Helper()
		all, err := c.ListSandboxes(ctx, connect.NewRequest(&pb.ListSandboxesRequest{}))
		if err != nil || len(all.Msg.Sandboxes) > 1 {
			t.Fatalf("%v %v", all, err)
		}
		for _, s := range all.Msg.Sandboxes {
			return s.Status
		}
		return "gone"
	}
	is := func(op, want string) {
		t.Helper()
		if got := state(); got != want {
			t.Fatalf("after %s it is %s", op, got)
		}
	}
	for round := range 2 * kills() {
		keep := []string{"snapshot", "flatten"}[round%2]
		killed("create", time.Second)
		is("create", "running")
		begun := said(ctx, t, c, "x", hostCounting+`; echo kept >/srv/kept; echo kept >/workspace/kept; sync`)
		killed("pause", 500*time.Millisecond)
		is("pause", "paused")
		killed("resume", 500*time.Millisecond)
		is("resume", "running")
		counts(ctx, t, c, "x", begun)
		killed(keep, 2*time.Second)
		is(keep, "gone")
		killed("create from it", time.Second)
		is("create from it", "running")
		if keep == "snapshot" {
			counts(ctx, t, c, "x", begun)
		}
		if got := said(ctx, t, c, "x", "cat /srv/kept /workspace/kept"); got != "kept\nkept" {
			t.Errorf("created from %s: got %q", keep, got)
		}
		for _, who := range []string{"supervisor", "machine"} {
			drawn(t, "resume, the "+who, 200*time.Millisecond, func(within time.Duration) bool {
				return killedDuringResume(ctx, t, p, c, who, time.Duration(random.Int64N(int64(within))))
			})
		}
		killed("destroy", 300*time.Millisecond)
		is("destroy", "gone")
		killed("delete", 100*time.Millisecond)
	}
	for _, op := range []string{"create", "destroy"} { // creating a sandbox removes what the supervisors of a killed host agent left
		if err := ask[op](c); err != nil {
			t.Error(err)
		}
	}
	p.endHost(agent)
}

// killedDuringResume pauses sandbox x and kills a process while the sandbox resumes. Afterwards
// the reported state must be correct: the sandbox runs, is still paused, or has ended and can be
// started. killedDuringResume reports whether it killed a process.
func killedDuringResume(ctx context.Context, t *testing.T, p *program, c hostagentv1connect.HostAgentServiceClient, who string, after time.Duration) bool {
	t.Helper()
	if _, err := c.PauseSandbox(ctx, connect.NewRequest(&pb.PauseSandboxRequest{SandboxId: "x"})); err != nil {
		t.Fatal(err)
	}
	id := p.list()[0]["workspace_id"].(string)
	others := slices.DeleteFunc(p.folders(), func(one string) bool { return one == id })
	resume := func() error {
		_, err := c.ResumeSandbox(ctx, connect.NewRequest(&pb.ResumeSandboxRequest{SandboxId: "x"}))
		return err
	}
	var failed error
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		failed = resume()
	}()
	victim := handle(t, p.awaitStarting(who, others, answered))
	time.Sleep(after)
	killed := hit(victim)
	<-answered
	state := finalSandbox(ctx, t, c, "x")
	t.Logf("resume, the %s killed (%t) after %s: %v, and it is %s", who, killed, after, failed, state)
	if really := p.finalState(id); state != map[string]string{"started": "running", "paused": "paused", "stopped": "stopped"}[really] || failed == nil && state == "paused" || !killed && state != "running" {
		t.Fatalf("resume, the %s killed (%t) after %s: %v, reported as %s, and is %s", who, killed, after, failed, state, really)
	}
	if state == "paused" {
		if err := resume(); err != nil {
			t.Fatal(err)
		}
	}
	if state == "stopped" {
		if _, err := c.DestroySandbox(ctx, connect.NewRequest(&pb.DestroySandboxRequest{SandboxId: "x"})); err != nil {
			t.Fatal(err)
		}
		if _, err := c.CreateSandbox(ctx, connect.NewRequest(&pb.CreateSandboxRequest{SandboxId: "x"})); err != nil {
			t.Fatal(err)
		}
	}
	if got := said(ctx, t, c, "x", "echo here"); got != "here" {
		t.Errorf("it says %q", got)
	}
	return killed
}

// endHost stops a host agent and checks that no sandboxes and templates remain.
func (p *program) endHost(agent *running) {
	p.t.Helper()
	agent.Process.Signal(syscall.SIGTERM)
	agent.end()
	for _, folder := range []string{"workspaces", "images/content", "host/sandboxes"} {
		if left, err := filepath.Glob(filepath.Join(p.state, folder, "*")); err != nil || len(left) > 0 {
			p.t.Errorf("left: %v %v", left, err)
		}
	}
}
