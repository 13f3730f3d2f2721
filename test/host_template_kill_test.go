//go:build machine

package test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/gen/hostagent/v1/hostagentv1connect"
)

// TestKilledWhileBecomingATemplate kills supervisors and machines at seeded moments of a snapshot and of a flattening. Either there is a template, of which the next
// sandbox is made, or there is none, and the sandbox has a state that is true and can be left by a call; at the end nothing is left.
func TestKilledWhileBecomingATemplate(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := newProgram(t).with("PYRO_HOST_TOKEN", hostToken)
	agent, address := p.serveHost()
	c := hostClient(t, address)
	ctx, cancel := context.WithTimeout(t.Context(), 6*patience)
	defer cancel()
	const template = "33333333-3333-3333-3333-333333333333"
	random := rand.New(rand.NewPCG(9, 9))
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
	for _, op := range []string{"snapshot", "flatten"} {
		took := time.Second
		for _, who := range append([]string{"nobody"}, repeated(kills(), "supervisor", "machine")...) {
			id, err := create("x", "")
			if err != nil {
				t.Fatal(err)
			}
			begun := said(ctx, t, c, "x", hostCounting+`; echo kept >/srv/kept; echo kept >/workspace/kept; sync`)
			supervisor, m, _ := p.find(id)
			answered := make(chan error, 1)
			began := time.Now()
			go func() { answered <- keep[op]() }()
			if victim := map[string]int{"supervisor": supervisor, "machine": m}[who]; victim != 0 {
				time.Sleep(time.Duration(random.Int64N(int64(took))))
				syscall.Kill(victim, syscall.SIGKILL)
			}
			err = <-answered
			if who == "nobody" {
				took = time.Since(began)
			}
			state := settledSandbox(ctx, t, c, "x")
			t.Logf("%s, %s killed: %v, and it is %s", op, who, err, state)
			_, made := create("y", template)
			switch {
			case err == nil && (state != "gone" || made != nil) || who == "nobody" && err != nil:
				t.Fatalf("%s, %s killed: it is %s, and of the template: %v", op, who, state, made)
			case err != nil && connect.CodeOf(made) != connect.CodeNotFound:
				t.Fatalf("%s, %s killed: %v, and there is a template: %v", op, who, err, made)
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
		}
	}
	agent.Process.Signal(syscall.SIGTERM)
	agent.end()
	for _, folder := range []string{"workspaces", "images/content", "host/sandboxes"} {
		if left, err := filepath.Glob(filepath.Join(p.state, folder, "*")); err != nil || len(left) > 0 {
			t.Errorf("left: %v %v", left, err)
		}
	}
}

// settledSandbox is a sandbox's state once it is no longer ending: until its supervisor has ended it is told as running.
func settledSandbox(ctx context.Context, t *testing.T, c hostagentv1connect.HostAgentServiceClient, id string) string {
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

// repeated gives some words so many times, in turn.
func repeated(times int, words ...string) (all []string) {
	for range times {
		all = append(all, words...)
	}
	return all
}
