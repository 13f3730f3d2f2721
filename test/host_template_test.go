//go:build machine

package test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"connectrpc.com/connect"

	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

// TestHostAgentTemplates turns one sandbox into a template that includes the running programs. It
// turns another sandbox into a template that contains only files. It creates sandboxes from both
// templates.
func TestHostAgentTemplates(t *testing.T) {
	t.Parallel()
	p := workspaces(t).with("PYRO_HOST_TOKEN", hostToken)
	agent, address := p.serveHost()
	c := hostClient(t, address)
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	const team, running, files = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222", "33333333-3333-3333-3333-333333333333"
	create := func(m *pb.CreateSandboxRequest) (workspace string) {
		t.Helper()
		r, err := c.CreateSandbox(ctx, connect.NewRequest(m))
		if err != nil || r.Msg.Status != "running" {
			t.Fatalf("%v %v", r, err)
		}
		return r.Msg.Metadata["workspace_id"]
	}
	create(&pb.CreateSandboxRequest{SandboxId: "source", DefaultEnv: map[string]string{"OF": "template"}})
	begun := said(ctx, t, c, "source", hostCounting)
	said(ctx, t, c, "source", "echo kept >/workspace/kept; mkdir /srv/d; echo kept >/srv/d/kept; chown 7:8 /srv/d /workspace/kept; rm /etc/debian_version")
	made, err := c.CreateSnapshot(ctx, connect.NewRequest(&pb.CreateSnapshotRequest{SandboxId: "source", Name: "counting", TeamId: team, TemplateId: running}))
	if err != nil || made.Msg.Name != "counting" || made.Msg.SizeBytes < 1<<20 {
		t.Fatalf("%v %v", made, err)
	}
	agent.Process.Signal(syscall.SIGKILL)
	agent.Wait()
	agent, address = p.serveHost()
	c = hostClient(t, address)
	var both sync.WaitGroup
	var workspaces [2]string
	for i, id := range []string{"one", "two"} {
		both.Go(func() {
			workspaces[i] = create(&pb.CreateSandboxRequest{SandboxId: id, TeamId: team, TemplateId: running})
		})
	}
	both.Wait()
	const all = "cat /workspace/kept /srv/d/kept; stat -c %u:%g /srv/d /workspace/kept; ls /etc/debian_version 2>/dev/null; echo $OF"
	const want = "kept\nkept\n7:8\n7:8\ntemplate"
	names := map[string]bool{}
	for _, id := range []string{"one", "two"} {
		counts(ctx, t, c, id, begun)
		if got := said(ctx, t, c, id, all); got != want {
			t.Errorf("%s has %q", id, got)
		}
		names[said(ctx, t, c, id, "hostname; cat /etc/machine-id")] = true
	}
	if len(names) != 2 {
		t.Errorf("they are the same machine: %v", names)
	}
	slowNeighbour(ctx, t, c, "two", "one")
	inUse := connect.NewRequest(&pb.DeleteSnapshotRequest{TeamId: team, TemplateId: running})
	if _, err := c.DeleteSnapshot(ctx, inUse); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("it is in use: %v", err)
	}
	said(ctx, t, c, "one", "echo more >>/workspace/kept; rm -r /srv/d; echo new >/srv/new; "+
		"find /usr -type f -exec cat {} + 2>/dev/null | head -c 32M >/srv/big; cp /srv/big /workspace; sync; rm /srv/big /workspace/big")
	inFiles, err := strconv.Atoi(said(ctx, t, c, "one", "du -sk --exclude=proc --exclude=sys --exclude=dev / | cut -f 1")) // size in KiB
	if err != nil {
		t.Fatal(err)
	}
	flat, err := c.FlattenRootfs(ctx, connect.NewRequest(&pb.FlattenRootfsRequest{SandboxId: "one", TeamId: team, TemplateId: files}))
	if err != nil || flat.Msg.SizeBytes < 1<<20 || flat.Msg.SizeBytes > int64(inFiles)<<10+28<<20 {
		t.Fatalf("of %d KiB of files: %v %v", inFiles, flat, err)
	}
	p.checkImages(flat.Msg.SizeBytes, "images/content", filepath.Join("workspaces", workspaces[0], "disks"))
	if _, err := c.DestroySandbox(ctx, connect.NewRequest(&pb.DestroySandboxRequest{SandboxId: "two"})); err != nil {
		t.Error(err)
	}
	if _, err := c.DeleteSnapshot(ctx, inUse); err != nil { // no sandbox depends on the template any more
		t.Error(err)
	}
	create(&pb.CreateSandboxRequest{SandboxId: "anew", TeamId: team, TemplateId: files, MemoryMb: 384})
	if got := said(ctx, t, c, "anew", "cat /workspace/kept /srv/new; ls /srv /etc/debian_version 2>/dev/null; stat -c %u:%g /workspace/kept; ls /tmp/counted; cat /proc/[0-9]*/cmdline | grep -c 'n+[1]'; echo $OF"); got !=
		"kept\nmore\nnew\n/srv:\nnew\n7:8\n/tmp/counted\n0\ntemplate" {
		t.Errorf("created from files: got %q", got)
	}
	if _, err := c.Terminate(ctx, connect.NewRequest(&pb.TerminateRequest{})); err != nil {
		t.Error(err)
	}
	agent.end()
	agent, address = p.serveHost()
	c = hostClient(t, address)
	create(&pb.CreateSandboxRequest{SandboxId: "again", TeamId: team, TemplateId: files}) // Terminate destroys sandboxes but not templates
	if _, err := c.DestroySandbox(ctx, connect.NewRequest(&pb.DestroySandboxRequest{SandboxId: "again"})); err != nil {
		t.Error(err)
	}
	if _, err := c.DeleteSnapshot(ctx, connect.NewRequest(&pb.DeleteSnapshotRequest{TeamId: team, TemplateId: files})); err != nil {
		t.Error(err)
	}
	p.endHost(agent)
}

// checkImages checks that the folders have the reported size, and that all images in them pass
// fsck.
func (p *program) checkImages(reported int64, folders ...string) {
	p.t.Helper()
	var taken int64
	images := 0
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(p.state, folder), func(path string, e os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			taken += info.Sys().(*syscall.Stat_t).Blocks * 512
			if filepath.Ext(path) != ".ext4" {
				return nil
			}
			images++
			if out, err := exec.Command("/usr/sbin/e2fsck", "-fn", path).CombinedOutput(); err != nil {
				p.t.Errorf("%s: %v: %s", path, err, out)
			}
			return nil
		})
		if err != nil {
			p.t.Fatal(err)
		}
	}
	if images == 0 || taken < reported || taken > reported+1<<20 {
		p.t.Errorf("%d images use %d bytes, reported %d", images, taken, reported)
	}
}
