//go:build machine

package test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/gen/hostagent/v1/hostagentv1connect"
)

// hostPty is a client that is attached to a terminal.
type hostPty struct {
	stream *connect.ServerStreamForClient[pb.PtyAttachResponse]
	leave  context.CancelFunc
	seen   bytes.Buffer
	next   int64
	exited *pb.PtyExited
}

func attachHost(ctx context.Context, t *testing.T, c hostagentv1connect.HostAgentServiceClient, q *pb.PtyAttachRequest) (*hostPty, *pb.PtyStarted) {
	t.Helper()
	ctx, leave := context.WithCancel(ctx)
	stream, err := c.PtyAttach(ctx, connect.NewRequest(q))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(leave)
	if !stream.Receive() || stream.Msg().GetStarted() == nil {
		t.Fatalf("it begins with %v, %v", stream.Msg(), stream.Err())
	}
	return &hostPty{stream: stream, leave: leave}, stream.Msg().GetStarted()
}

// until reads until the output contains the text. If the text is empty, it reads to the end.
func (u *hostPty) until(t *testing.T, text string) string {
	t.Helper()
	for text == "" || !strings.Contains(u.seen.String(), text) {
		if !u.stream.Receive() {
			if text != "" || u.stream.Err() != nil {
				t.Fatalf("output %q did not arrive: got %q and %v", text, u.seen.String(), u.stream.Err())
			}
			break
		}
		if o := u.stream.Msg().GetOutput(); o != nil {
			u.seen.Write(o.Data)
			u.next = o.Offset + int64(len(o.Data))
		}
		if e := u.stream.Msg().GetExited(); e != nil {
			u.exited = e
		}
	}
	return u.seen.String()
}

// typeHost types a line on the terminal with the given tag.
func typeHost(ctx context.Context, t *testing.T, c hostagentv1connect.HostAgentServiceClient, tag, text string) {
	t.Helper()
	if _, err := c.PtySendInput(ctx, connect.NewRequest(&pb.PtySendInputRequest{SandboxId: "one", Tag: tag, Data: []byte(text + "\n")})); err != nil {
		t.Fatal(err)
	}
}

// hostOutput runs a command line in the sandbox and returns the output.
func hostOutput(ctx context.Context, t *testing.T, c hostagentv1connect.HostAgentServiceClient, line string) string {
	t.Helper()
	r, err := c.Exec(ctx, connect.NewRequest(&pb.ExecRequest{SandboxId: "one", Cmd: "sh", Args: []string{"-c", line}, TimeoutSec: 600}))
	if err != nil {
		t.Fatal(err)
	}
	return string(r.Msg.Stdout)
}

// leftPrograms contains programs that keep running in a sandbox, on terminals and in the
// background.
type leftPrograms struct {
	next    int64 // offset in the terminal's output after the output so far
	pty     uint32
	server  uint32
	watched *hostPty
}

// leavePrograms starts the programs and disconnects from them.
func leavePrograms(ctx context.Context, t *testing.T, c hostagentv1connect.HostAgentServiceClient) *leftPrograms {
	script := `stty -echo; tty >/dev/null && echo "$WHO $(pwd) $(stty size) $$"; while read -r line; do echo "got $line"; stty size; done`
	u, started := attachHost(ctx, t, c, &pb.PtyAttachRequest{SandboxId: "one", Tag: "pty-a", Cmd: "sh", Args: []string{"-c", script}, Envs: map[string]string{"WHO": "you"}, Cwd: "/tmp", Cols: 91, Rows: 37})
	u.until(t, fmt.Sprintf("you /tmp 37 91 %d\r\n", started.Pid))
	typeHost(ctx, t, c, "pty-a", "one")
	u.until(t, "got one\r\n37 91\r\n")
	if _, err := c.PtyResize(ctx, connect.NewRequest(&pb.PtyResizeRequest{SandboxId: "one", Tag: "pty-a", Cols: 100, Rows: 40})); err != nil {
		t.Error(err)
	}
	server, err := c.StartBackground(ctx, connect.NewRequest(&pb.StartBackgroundRequest{
		SandboxId: "one", Tag: "server", Cmd: "sh", Cwd: "/srv", Envs: map[string]string{"WHO": "you"},
		Args: []string{"-c", `echo "$WHO $OF $(pwd) $$"; echo wrong >&2; setsid sleep 7654 & until test -e /tmp/go; do sleep 0.1; done; echo went; sleep 7654`},
	}))
	if err != nil {
		t.Fatal(err)
	}
	u.leave()
	typeHost(ctx, t, c, "pty-a", "two")
	return &leftPrograms{next: u.next, pty: started.Pid, server: server.Msg.Pid}
}

// reattach attaches to the programs again after the host agent was killed and restarted.
func (p *leftPrograms) reattach(ctx context.Context, t *testing.T, c hostagentv1connect.HostAgentServiceClient) {
	u, started := attachHost(ctx, t, c, &pb.PtyAttachRequest{SandboxId: "one", Tag: "pty-a"})
	if seen := u.until(t, "got two\r\n40 100\r\n"); started.Pid != p.pty {
		t.Errorf("pid %d became %d, and says %q", p.pty, started.Pid, seen)
	}
	exact, _ := attachHost(ctx, t, c, &pb.PtyAttachRequest{SandboxId: "one", Tag: "pty-a", Offset: proto.Int64(p.next)})
	if seen := exact.until(t, "40 100\r\n"); seen != "got two\r\n40 100\r\n" {
		t.Errorf("output from the acknowledged offset: got %q", seen)
	}
	if _, err := c.PtyKill(ctx, connect.NewRequest(&pb.PtyKillRequest{SandboxId: "one", Tag: "pty-a"})); err != nil {
		t.Error(err)
	}
	for _, one := range []*hostPty{u, exact} {
		if one.until(t, ""); one.exited.GetExitCode() != 137 {
			t.Errorf("killed, it ended with %v", one.exited)
		}
	}
	list, err := c.ListProcesses(ctx, connect.NewRequest(&pb.ListProcessesRequest{SandboxId: "one"}))
	if err != nil || len(list.Msg.Processes) != 1 || list.Msg.Processes[0].Pid != p.server || list.Msg.Processes[0].Tag != "server" || list.Msg.Processes[0].Cmd != "sh" || len(list.Msg.Processes[0].Args) != 2 {
		t.Fatalf("listed: %v %v", list, err)
	}
	p.slowReader(ctx, t, c)
	p.connect(ctx, t, c)
	p.watched, _ = attachHost(ctx, t, c, &pb.PtyAttachRequest{SandboxId: "one", Tag: "watched", Cmd: "cat"})
}

// slowReader checks that a client that does not read a flood of output does not delay other
// clients.
func (p *leftPrograms) slowReader(ctx context.Context, t *testing.T, c hostagentv1connect.HostAgentServiceClient) {
	slow, _ := attachHost(ctx, t, c, &pb.PtyAttachRequest{SandboxId: "one", Tag: "flood", Cmd: "sh", Args: []string{"-c", "stty raw; head -c 20000000 /dev/zero; echo flooded"}})
	quick, _ := attachHost(ctx, t, c, &pb.PtyAttachRequest{SandboxId: "one", Tag: "flood"})
	for quick.stream.Receive() { // discards the output
		if e := quick.stream.Msg().GetExited(); e != nil {
			quick.exited = e
		}
	}
	if quick.exited == nil || quick.exited.ExitCode != 0 || quick.stream.Err() != nil {
		t.Errorf("beside a client that does not read: got exit %v, %v", quick.exited, quick.stream.Err())
	}
	if said := hostOutput(ctx, t, c, "echo here"); said != "here\n" {
		t.Errorf("beside a client that does not read: got %q", said)
	}
	if seen := slow.until(t, ""); !strings.HasSuffix(seen, "flooded\n") || slow.next != 20_000_000+int64(len("flooded\n")) {
		t.Errorf("the slow one saw %d bytes up to %d", len(seen), slow.next)
	}
}

// slowNeighbour checks that a client that stops reading a file and a flood of output from one
// sandbox does not delay calls to another sandbox. When the client disconnects, the flood must end.
func slowNeighbour(ctx context.Context, t *testing.T, c hostagentv1connect.HostAgentServiceClient, slow, other string) {
	t.Helper()
	said(ctx, t, c, slow, "truncate -s 1G /tmp/endless")
	unread, leave := context.WithCancel(ctx)
	defer leave()
	file, err := c.ReadFileStream(unread, connect.NewRequest(&pb.ReadFileStreamRequest{SandboxId: slow, Path: "/tmp/endless"}))
	if err != nil || !file.Receive() {
		t.Fatal(err, file.Err())
	}
	defer file.Close()
	flood, err := c.ExecStream(unread, connect.NewRequest(&pb.ExecStreamRequest{SandboxId: slow, Cmd: "yes"}))
	if err != nil {
		t.Fatal(err)
	}
	defer flood.Close()
	for flood.Receive() && flood.Msg().GetData() == nil {
	}
	if flood.Err() != nil {
		t.Fatal(flood.Err())
	}
	content := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	for range 10 { // enough data to fill the buffers
		if _, err := c.WriteFile(ctx, connect.NewRequest(&pb.WriteFileRequest{SandboxId: other, Path: "/tmp/beside", Content: content})); err != nil {
			t.Error(err)
		}
		if r, err := c.ReadFile(ctx, connect.NewRequest(&pb.ReadFileRequest{SandboxId: other, Path: "/tmp/beside"})); err != nil || !bytes.Equal(r.Msg.Content, content) {
			t.Errorf("beside a client that does not read: got %v", err)
		}
		if got := said(ctx, t, c, other, "seq 100000 | tail -n 1"); got != "100000" {
			t.Errorf("beside a client that does not read: got %q", got)
		}
	}
	leave()
	for said(ctx, t, c, slow, "pidof yes || echo gone") != "gone" {
	}
	said(ctx, t, c, slow, "rm /tmp/endless")
}

// connect reads the output of a background program until the program ends.
func (p *leftPrograms) connect(ctx context.Context, t *testing.T, c hostagentv1connect.HostAgentServiceClient) {
	stream, err := c.ConnectProcess(ctx, connect.NewRequest(&pb.ConnectProcessRequest{SandboxId: "one", Selector: &pb.ConnectProcessRequest_Pid{Pid: p.server}}))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var out, errs string
	var end *pb.ExecStreamEnd
	for said := false; stream.Receive(); {
		out, errs = out+string(stream.Msg().GetData().GetStdout()), errs+string(stream.Msg().GetData().GetStderr())
		if first := fmt.Sprintf("you default /srv %d\n", p.server); out == first && !said {
			said = true
			hostOutput(ctx, t, c, "touch /tmp/go")
		}
		if strings.HasSuffix(out, "\nwent\n") {
			if _, err := c.KillProcess(ctx, connect.NewRequest(&pb.KillProcessRequest{SandboxId: "one", Selector: &pb.KillProcessRequest_Tag{Tag: "server"}})); err != nil {
				t.Error(err)
			}
		}
		end = stream.Msg().GetEnd()
	}
	if stream.Err() != nil || end.GetExitCode() != 137 || errs != "wrong\n" || !slices.Equal(strings.Split(out, "\n"), []string{fmt.Sprintf("you default /srv %d", p.server), "went", ""}) {
		t.Errorf("it printed %q and %q, and ended with %v: %v", out, errs, end, stream.Err())
	}
	for hostOutput(ctx, t, c, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 765[4]'") != "0\n" {
	}
	list, err := c.ListProcesses(ctx, connect.NewRequest(&pb.ListProcessesRequest{SandboxId: "one"}))
	if err != nil || len(list.Msg.Processes) != 0 {
		t.Errorf("left: %v %v", list, err)
	}
}

// gone checks that the stream of a watcher ends with an error when the sandbox is destroyed.
func (p *leftPrograms) gone(t *testing.T) {
	for p.watched.stream.Receive() {
	}
	if code := connect.CodeOf(p.watched.stream.Err()); code != connect.CodeUnavailable {
		t.Errorf("its sandbox was destroyed: %v", p.watched.stream.Err())
	}
}

// TestHostAgentProgramsAfterPause checks that terminals and processes continue after a pause
// and a resume. Unread output must not be lost.
func TestHostAgentProgramsAfterPause(t *testing.T) {
	t.Parallel()
	p := workspaces(t).with("PYRO_HOST_TOKEN", hostToken)
	agent, address := p.serveHost()
	c := hostClient(t, address)
	ctx, cancel := context.WithTimeout(t.Context(), 10*patience)
	defer cancel()
	made, err := c.CreateSandbox(ctx, connect.NewRequest(&pb.CreateSandboxRequest{SandboxId: "one"}))
	if err != nil {
		t.Fatal(err)
	}
	u, started := attachHost(ctx, t, c, &pb.PtyAttachRequest{SandboxId: "one", Tag: "pty-a", Cmd: "sh", Args: []string{"-c", `stty -echo; echo ready; while read -r line; do echo "got $line"; done`}})
	u.until(t, "ready\r\n")
	server, err := c.StartBackground(ctx, connect.NewRequest(&pb.StartBackgroundRequest{
		SandboxId: "one", Tag: "server", Cmd: "sh", Args: []string{"-c", "echo before; echo wrong >&2; until test -e /tmp/go; do sleep 0.1; done; echo after; echo again >&2; exit 6"},
	}))
	if err != nil {
		t.Fatal(err)
	}
	watch := func() *connect.ServerStreamForClient[pb.ConnectProcessResponse] {
		t.Helper()
		stream, err := c.ConnectProcess(ctx, connect.NewRequest(&pb.ConnectProcessRequest{SandboxId: "one", Selector: &pb.ConnectProcessRequest_Tag{Tag: "server"}}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stream.Close() })
		return stream
	}
	watched := watch()
	for out := ""; !strings.Contains(out, "wrong") || !strings.Contains(out, "before"); {
		if !watched.Receive() {
			t.Fatal(watched.Err())
		}
		out += string(watched.Msg().GetData().GetStdout()) + string(watched.Msg().GetData().GetStderr())
	}
	workspace := made.Msg.Metadata["workspace_id"]
	if r := p.run(nil, "workspace", "pause", workspace); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	if u.stream.Receive() || connect.CodeOf(u.stream.Err()) != connect.CodeUnavailable {
		t.Errorf("the watcher got %v, %v", u.stream.Msg(), u.stream.Err())
	}
	for watched.Receive() {
	}
	if connect.CodeOf(watched.Err()) != connect.CodeUnavailable {
		t.Errorf("the connected client got %v", watched.Err())
	}
	if r := p.run(nil, "workspace", "resume", workspace); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	list, err := c.ListProcesses(ctx, connect.NewRequest(&pb.ListProcessesRequest{SandboxId: "one"}))
	if err != nil || len(list.Msg.Processes) != 1 || list.Msg.Processes[0].Pid != server.Msg.Pid || list.Msg.Processes[0].Cmd != "sh" {
		t.Errorf("listed: %v %v", list, err)
	}
	typeHost(ctx, t, c, "pty-a", "it")
	again, back := attachHost(ctx, t, c, &pb.PtyAttachRequest{SandboxId: "one", Tag: "pty-a", Offset: proto.Int64(u.next)})
	if seen := again.until(t, "it\r\n"); seen != "got it\r\n" || back.Pid != started.Pid {
		t.Errorf("the terminal of %d continues as %d with %q", started.Pid, back.Pid, seen)
	}
	hostOutput(ctx, t, c, "touch /tmp/go")
	var out, errs string
	var end *pb.ExecStreamEnd
	for stream := watch(); stream.Receive(); end = stream.Msg().GetEnd() {
		out, errs = out+string(stream.Msg().GetData().GetStdout()), errs+string(stream.Msg().GetData().GetStderr())
	}
	if out != "before\nafter\n" || errs != "wrong\nagain\n" || end.GetExitCode() != 6 {
		t.Errorf("it printed %q and %q, and ended with %v", out, errs, end)
	}
	if _, err := c.Terminate(ctx, connect.NewRequest(&pb.TerminateRequest{})); err != nil {
		t.Error(err)
	}
	if end := agent.end(); end.code != 0 {
		t.Errorf("after Terminate: %+v", end)
	}
}
