//go:build machine

package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/gen/hostagent/v1/hostagentv1connect"
)

const hostToken = "a-token-of-this-test"

// withHostToken adds the host token to each request.
type withHostToken struct{ http.RoundTripper }

func (w withHostToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+hostToken)
	return w.RoundTripper.RoundTrip(r)
}

// serveHost starts a host agent and returns its address.
func (p *program) serveHost(flags ...string) (*running, string) {
	p.t.Helper()
	r := p.start(append([]string{"host", "serve", "--listen", "127.0.0.1:0", "--network-policy", "off"}, flags...)...)
	address := ""
	for line := range strings.Lines(r.untilLine("serving at ")) {
		if _, after, ok := strings.Cut(strings.TrimSpace(line), "serving at "); ok {
			address = after
		}
	}
	return r, address
}

// untilLine reads lines until a line has the given prefix. It returns that line.
func (r *running) untilLine(begin string) string {
	r.t.Helper()
	var line []byte
	for b := make([]byte, 1); ; {
		if _, err := r.out.Read(b); err != nil {
			r.t.Fatalf("no line %q: %v\n%s", begin, err, r.stderr)
		}
		if line = append(line, b[0]); b[0] != '\n' {
			continue
		}
		if strings.HasPrefix(string(line), begin) {
			return string(line)
		}
		line = line[:0]
	}
}

// TestHostAgent makes every call with a generated gRPC client. It does so before and after the host
// agent is killed.
func TestHostAgent(t *testing.T) {
	t.Parallel()
	p := workspaces(t).with("PYRO_HOST_TOKEN", hostToken)
	agent, address := p.serveHost()
	c := hostClient(t, address)
	ctx, cancel := context.WithTimeout(t.Context(), 10*patience)
	defer cancel()
	made, err := c.CreateSandbox(ctx, connect.NewRequest(&pb.CreateSandboxRequest{SandboxId: "one", DefaultEnv: map[string]string{"WHO": "me", "OF": "default"}}))
	if err != nil || made.Msg.Status != "running" || made.Msg.Metadata["isolation"] == "" {
		t.Fatalf("%v %v", made, err)
	}
	ended, err := c.Exec(ctx, connect.NewRequest(&pb.ExecRequest{
		SandboxId: "one", Cmd: "sh", Args: []string{"-c", "echo $WHO $OF; pwd; echo wrong >&2; exit 7"}, Envs: map[string]string{"WHO": "you"}, Cwd: "/tmp",
	}))
	if err != nil || string(ended.Msg.Stdout) != "you default\n/tmp\n" || string(ended.Msg.Stderr) != "wrong\n" || ended.Msg.ExitCode != 7 {
		t.Errorf("%v %v", ended, err)
	}
	if _, err := c.Exec(ctx, connect.NewRequest(&pb.ExecRequest{SandboxId: "one", Cmd: "sh", Args: []string{"-c", "sleep 1000 & sleep 1000"}, TimeoutSec: 1})); connect.CodeOf(err) != connect.CodeDeadlineExceeded {
		t.Errorf("over its time: %v", err)
	}
	left, err := c.Exec(ctx, connect.NewRequest(&pb.ExecRequest{SandboxId: "one", Cmd: "sh", Args: []string{"-c", "cat /proc/[0-9]*/comm | grep -c sleep"}}))
	if err != nil || string(left.Msg.Stdout) != "0\n" {
		t.Errorf("processes of the sandbox still run: %v %v", left, err)
	}
	hostStreams(ctx, t, c)
	hostFiles(ctx, t, c)
	programs := leavePrograms(ctx, t, c)
	agent.Process.Signal(syscall.SIGKILL)
	agent.Wait()
	agent, address = p.serveHost()
	c = hostClient(t, address)
	all, err := c.ListSandboxes(ctx, connect.NewRequest(&pb.ListSandboxesRequest{}))
	if err != nil || len(all.Msg.Sandboxes) != 1 || all.Msg.Sandboxes[0].SandboxId != "one" || all.Msg.Sandboxes[0].Status != "running" {
		t.Fatalf("after it was killed: %v %v", all, err)
	}
	kept, err := c.ReadFile(ctx, connect.NewRequest(&pb.ReadFileRequest{SandboxId: "one", Path: "/srv/kept"}))
	if err != nil || string(kept.Msg.Content) != "as it was" {
		t.Errorf("after it was killed: %v %v", kept, err)
	}
	if _, err := c.PingSandbox(ctx, connect.NewRequest(&pb.PingSandboxRequest{SandboxId: "one"})); err != nil {
		t.Error(err)
	}
	for { // waits for the first samples
		taken, err := c.GetSandboxMetrics(ctx, connect.NewRequest(&pb.GetSandboxMetricsRequest{SandboxId: "one", Range: "10m"}))
		if err != nil {
			t.Fatal(err)
		}
		if len(taken.Msg.Points) > 1 {
			if last := taken.Msg.Points[len(taken.Msg.Points)-1]; last.MemBytes <= 0 || last.DiskBytes <= 0 || last.CpuPct < 0 || last.CpuPct > 100 {
				t.Errorf("it takes %v", last)
			}
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if flushed, err := c.FlushSandboxMetrics(ctx, connect.NewRequest(&pb.FlushSandboxMetricsRequest{SandboxId: "one"})); err != nil || len(flushed.Msg.Points_10M) < 2 {
		t.Errorf("%v %v", flushed, err)
	}
	programs.reattach(ctx, t, c)
	if _, err := c.DestroySandbox(ctx, connect.NewRequest(&pb.DestroySandboxRequest{SandboxId: "one"})); err != nil {
		t.Error(err)
	}
	programs.gone(t)
	if _, err := c.CreateSandbox(ctx, connect.NewRequest(&pb.CreateSandboxRequest{})); err != nil {
		t.Error(err)
	}
	if _, err := c.Terminate(ctx, connect.NewRequest(&pb.TerminateRequest{})); err != nil {
		t.Error(err)
	}
	if end := agent.end(); end.code != 0 {
		t.Errorf("after Terminate: %+v", end)
	}
	if r := p.run(nil, "workspace", "list", "--json"); !strings.Contains(r.stdout, `"workspaces": []`) {
		t.Errorf("left: %s", r.stdout)
	}
}

func hostClient(t *testing.T, address string) hostagentv1connect.HostAgentServiceClient {
	return hostagentv1connect.NewHostAgentServiceClient(hostHTTP(t), address, connect.WithGRPC())
}

// hostHTTP returns an HTTP/2 client that sends the token of the host agent.
func hostHTTP(t *testing.T) *http.Client {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: withHostToken{transport}}
}

// hostStreams checks that the output of a program arrives while the program runs. When the caller
// disconnects, the program must be killed.
func hostStreams(ctx context.Context, t *testing.T, c hostagentv1connect.HostAgentServiceClient) {
	stream, err := c.ExecStream(ctx, connect.NewRequest(&pb.ExecStreamRequest{SandboxId: "one", Cmd: "sh", Args: []string{"-c", "echo $$; exit 9"}}))
	if err != nil {
		t.Fatal(err)
	}
	pid, said, code := uint32(0), "", int32(0)
	for stream.Receive() {
		switch e := stream.Msg().Event.(type) {
		case *pb.ExecStreamResponse_Start:
			pid = e.Start.Pid
		case *pb.ExecStreamResponse_Data:
			said += string(e.Data.GetStdout())
		case *pb.ExecStreamResponse_End:
			code = e.End.ExitCode
		}
	}
	if stream.Err() != nil || said != fmt.Sprintln(pid) || code != 9 {
		t.Errorf("pid %d printed %q and ended with %d: %v", pid, said, code, stream.Err())
	}
	going, go1 := context.WithCancel(ctx)
	defer go1()
	stream, err = c.ExecStream(going, connect.NewRequest(&pb.ExecStreamRequest{SandboxId: "one", Cmd: "sh", Args: []string{"-c", "echo began; exec sleep 987"}}))
	if err != nil {
		t.Fatal(err)
	}
	for stream.Receive() && stream.Msg().GetData() == nil {
	}
	go1()
	for {
		r, err := c.Exec(ctx, connect.NewRequest(&pb.ExecRequest{SandboxId: "one", Cmd: "sh", Args: []string{"-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 98[7]'"}}))
		if err != nil {
			t.Fatal(err)
		}
		if string(r.Msg.Stdout) == "0\n" {
			break
		}
	}
}

// hostFiles makes every file call.
func hostFiles(ctx context.Context, t *testing.T, c hostagentv1connect.HostAgentServiceClient) {
	if _, err := c.WriteFile(ctx, connect.NewRequest(&pb.WriteFileRequest{SandboxId: "one", Path: "/srv/kept", Content: []byte("as it was")})); err != nil {
		t.Fatal(err)
	}
	meta := func(path string) *pb.WriteFileStreamRequest {
		return &pb.WriteFileStreamRequest{Content: &pb.WriteFileStreamRequest_Meta{Meta: &pb.WriteFileStreamMeta{SandboxId: "one", Path: path}}}
	}
	piece := bytes.Repeat([]byte("0123456789abcdef"), 16<<10)
	chunk := &pb.WriteFileStreamRequest{Content: &pb.WriteFileStreamRequest_Chunk{Chunk: piece}}
	cutting, cut := context.WithCancel(ctx)
	defer cut()
	stream := c.WriteFileStream(cutting)
	if err := errors.Join(stream.Send(meta("/srv/kept")), stream.Send(chunk), stream.Send(chunk)); err != nil {
		t.Fatal(err)
	}
	cut()
	const pieces = 24
	stream = c.WriteFileStream(ctx)
	if err := stream.Send(meta("/srv/big/file")); err != nil {
		t.Fatal(err)
	}
	for range pieces {
		if err := stream.Send(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := stream.CloseAndReceive(); err != nil {
		t.Fatal(err)
	}
	read, err := c.ReadFileStream(ctx, connect.NewRequest(&pb.ReadFileStreamRequest{SandboxId: "one", Path: "/srv/big/file"}))
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	for read.Receive() {
		got.Write(read.Msg().Chunk)
	}
	if read.Err() != nil || !bytes.Equal(got.Bytes(), bytes.Repeat(piece, pieces)) {
		t.Errorf("received %d bytes: %v", got.Len(), read.Err())
	}
	prepare := "cd /srv; ln -s kept link; chown 1:2 kept; chmod 4750 kept; touch -d @1234 kept; mkdir -m 1777 d; touch d/below"
	if r, err := c.Exec(ctx, connect.NewRequest(&pb.ExecRequest{SandboxId: "one", Cmd: "sh", Args: []string{"-c", prepare}})); err != nil || r.Msg.ExitCode != 0 {
		t.Fatalf("%v %v", r, err)
	}
	list, err := c.ListDir(ctx, connect.NewRequest(&pb.ListDirRequest{SandboxId: "one", Path: "/srv", Depth: 2}))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range list.Msg.Entries {
		line := fmt.Sprintf("%s %s %s %s %s:%s %o", e.Type, e.Permissions, e.Name, e.Path, e.Owner, e.Group, e.Mode)
		if e.SymlinkTarget != nil {
			line += " -> " + *e.SymlinkTarget
		}
		if e.Name == "kept" {
			line += fmt.Sprintf(" %d %d", e.Size, e.ModifiedAt)
		}
		lines = append(lines, line)
	}
	if want := []string{
		"directory drwxr-xr-x big /srv/big root:root 755", "file -rw-r--r-- file /srv/big/file root:root 644", "directory drwxrwxrwt d /srv/d root:root 1777",
		"file -rw-r--r-- below /srv/d/below root:root 644", "file -rwsr-x--- kept /srv/kept daemon:bin 4750 9 1234", "symlink lrwxrwxrwx link /srv/link root:root 777 -> kept",
	}; !slices.Equal(lines, want) {
		t.Errorf("listed\n%s", strings.Join(lines, "\n"))
	}
	folder, err := c.MakeDir(ctx, connect.NewRequest(&pb.MakeDirRequest{SandboxId: "one", Path: "/workspace/a/b"}))
	if err != nil || folder.Msg.Entry.Path != "/workspace/a/b" || folder.Msg.Entry.Type != "directory" {
		t.Errorf("%v %v", folder, err)
	}
	for _, path := range []string{"/srv/big", "/srv/link", "/workspace/a"} {
		if _, err := c.RemovePath(ctx, connect.NewRequest(&pb.RemovePathRequest{SandboxId: "one", Path: path})); err != nil {
			t.Error(err)
		}
	}
	for path, code := range map[string]connect.Code{
		"/srv/big": connect.CodeNotFound, "srv/kept": connect.CodeInvalidArgument, "/": connect.CodeInvalidArgument, "/workspace": connect.CodeInvalidArgument,
	} {
		if _, err := c.RemovePath(ctx, connect.NewRequest(&pb.RemovePathRequest{SandboxId: "one", Path: path})); connect.CodeOf(err) != code {
			t.Errorf("remove %s: %v", path, err)
		}
	}
	kept, err := c.ReadFile(ctx, connect.NewRequest(&pb.ReadFileRequest{SandboxId: "one", Path: "/srv/kept"}))
	if err != nil || string(kept.Msg.Content) != "as it was" {
		t.Errorf("after a stream that was cut: %v %v", kept, err)
	}
}

const flatTeam = "44444444-4444-4444-8444-444444444444"
