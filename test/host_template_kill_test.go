//go:build machine

package test

import (
	"context"
	"testing"
	"time"

	"connectrpc.com/connect"

	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/gen/hostagent/v1/hostagentv1connect"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestKilledDuringTemplate kills supervisors and machines at random moments while a sandbox
// becomes a template. It tests both a snapshot and flattening. Afterwards there must be a template
// that works, or no template and a sandbox whose reported state is correct. At the end nothing must
// remain.
func TestKilledDuringTemplate(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := workspaces(t).with("PYRO_HOST_TOKEN", hostToken)
	agent, address := p.serveHost()
	c := hostClient(t, address)
	ctx, cancel := context.WithTimeout(t.Context(), 6*patience)
	defer cancel()
	const template = "33333333-3333-3333-3333-333333333333"
	random := testenv.Rand(t, 9)
	keep := map[string]func() error{
		"snapshot": func() error {
			_, err := c.CreateSnapshot(ctx, connect.NewRequest(&pb.CreateSnapshotRequest{SandboxId: "x", TemplateId: template}))
			return err
		},
		"flatten": func() error {
			_, err := c.FlattenRootfs(ctx, connect.NewRequest(&pb.FlattenRootfsRequest{SandboxId: "x", TemplateId: template}))
			return err
		},
	}
	create := func(id, template string) (string, error) {
		made, err := c.CreateSandbox(ctx, connect.NewRequest(&pb.CreateSandboxRequest{SandboxId: id, TemplateId: template}))
		if err != nil {
			return "", err
		}
		return made.Msg.Metadata["workspace_id"], nil
	}
	destroy := func(id string) {
		t.Helper()
		if _, err := c.DestroySandbox(ctx, connect.NewRequest(&pb.DestroySandboxRequest{SandboxId: id})); err != nil {
			t.Error(err)
		}
	}
	// killed turns a sandbox into a template, kills a process within the given time, and checks the
	// result. It reports whether a process was killed and how long the operation took.
	killed := func(op, who string, within time.Duration) (was bool, took time.Duration) {
		t.Helper()
		id, err := create("x", "")
		if err != nil {
			t.Fatal(err)
		}
		begun := said(ctx, t, c, "x", hostCounting+`; echo kept >/srv/kept; echo kept >/workspace/kept; sync`)
		supervisor, m, _ := p.find(id)
		victim := handle(t, victimOf(who, supervisor, m))
		answered := make(chan error, 1)
		began := time.Now()
		go func() { answered <- keep[op]() }()
		if within > 0 {
			time.Sleep(time.Duration(random.Int64N(int64(within))))
			was = hit(victim)
		}
		err = <-answered
		took = time.Since(began)
		state := finalSandbox(ctx, t, c, "x")
		t.Logf("%s, %s killed (%t): %v, and it is %s", op, who, was, err, state)
		_, made := create("y", template)
		switch {
		case err == nil && (state != "gone" || made != nil) || !was && err != nil:
			t.Fatalf("%s, %s killed: it is %s, and of the template: %v", op, who, state, made)
		case err != nil && connect.CodeOf(made) != connect.CodeNotFound:
			t.Fatalf("%s, %s killed: %v, template exists: %v", op, who, err, made)
		case err != nil && state == "paused":
			if _, err := c.ResumeSandbox(ctx, connect.NewRequest(&pb.ResumeSandboxRequest{SandboxId: "x"})); err != nil {
				t.Fatal(err)
			}
			counts(ctx, t, c, "x", begun)
		case err != nil && state == "running":
			counts(ctx, t, c, "x", begun)
		case err != nil && state != "stopped":
			t.Fatalf("%s, %s killed: %v, and it is %s", op, who, err, state)
		}
		if made == nil {
			if got := said(ctx, t, c, "y", "cat /srv/kept /workspace/kept"); got != "kept\nkept" {
				t.Errorf("it has %q", got)
			}
			if op == "snapshot" {
				counts(ctx, t, c, "y", begun)
			}
			destroy("y")
			if _, err := c.DeleteSnapshot(ctx, connect.NewRequest(&pb.DeleteSnapshotRequest{TemplateId: template})); err != nil {
				t.Error(err)
			}
		}
		destroy("x")
		return was, took
	}
	for _, op := range []string{"snapshot", "flatten"} {
		_, took := killed(op, "nobody", 0)
		for _, who := range repeated(kills(), "supervisor", "machine") {
			drawn(t, op+", the "+who, took, func(within time.Duration) bool {
				was, _ := killed(op, who, within)
				return was
			})
		}
	}
	p.endHost(agent)
}

// finalSandbox returns the state of a sandbox after its supervisor has finished. Before that, the
// sandbox is reported as running.
func finalSandbox(ctx context.Context, t *testing.T, c hostagentv1connect.HostAgentServiceClient, id string) string {
	t.Helper()
	for {
		all, err := c.ListSandboxes(ctx, connect.NewRequest(&pb.ListSandboxesRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		state := "gone"
		for _, s := range all.Msg.Sandboxes {
			state = s.Status
		}
		if state != "running" {
			return state
		}
		if _, err := c.Exec(ctx, connect.NewRequest(&pb.ExecRequest{SandboxId: id, Cmd: "true"})); err == nil {
			return state
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// repeated returns the words in order, repeated the given number of times.
func repeated(times int, words ...string) (all []string) {
	for range times {
		all = append(all, words...)
	}
	return all
}
