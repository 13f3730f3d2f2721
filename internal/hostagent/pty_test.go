package hostagent

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/gen/hostagent/v1/hostagentv1connect"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// ptyUser is a client that has attached to a terminal.
type ptyUser struct {
	t      *testing.T
	stream *connect.ServerStreamForClient[pb.PtyAttachResponse]
	leave  context.CancelFunc
	seen   bytes.Buffer
	next   int64 // expected offset of the next output
	exited *pb.PtyExited
}

// attach attaches to a terminal and reads the start event.
func attach(t *testing.T, c hostagentv1connect.HostAgentServiceClient, q *pb.PtyAttachRequest) (*ptyUser, *pb.PtyStarted) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	stream, err := c.PtyAttach(ctx, connect.NewRequest(q))
	if err != nil {
		t.Fatal(err)
	}
	u := &ptyUser{t: t, stream: stream, leave: leave}
	t.Cleanup(leave)
	if !stream.Receive() || stream.Msg().GetStarted() == nil {
		t.Fatalf("it begins with %v, %v", stream.Msg(), stream.Err())
	}
	return u, stream.Msg().GetStarted()
}

// until reads output up to the given text. If text is empty, until reads to the end.
func (u *ptyUser) until(text string) string {
	u.t.Helper()
	for text == "" || !strings.Contains(u.seen.String(), text) {
		if !u.stream.Receive() {
			if text != "" || u.stream.Err() != nil {
				u.t.Fatalf("output %q did not arrive: got %q and %v", text, u.seen.String(), u.stream.Err())
			}
			return u.seen.String()
		}
		switch e := u.stream.Msg().Event.(type) {
		case *pb.PtyAttachResponse_Output:
			if u.seen.Len() > 0 && e.Output.Offset != u.next {
				u.t.Fatalf("got output at offset %d, want %d", e.Output.Offset, u.next)
			}
			u.seen.Write(e.Output.Data)
			u.next = e.Output.Offset + int64(len(e.Output.Data))
		case *pb.PtyAttachResponse_Exited:
			u.exited = e.Exited
		}
	}
	return u.seen.String()
}

func TestTerminalOutlivesClient(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x", DefaultUser: "daemon", DefaultEnv: map[string]string{"A": "1", "B": "2"}})
	for name, c := range dial(t, serve(t, a, ServeOptions{})) {
		u, started := attach(t, c, &pb.PtyAttachRequest{SandboxId: "x", Tag: name, Cmd: "bash", Args: []string{"-l"}, Envs: map[string]string{"B": "3"}, Cwd: "/srv", Rows: 50})
		s := f.shell(name)
		if k := s.command; !slices.Equal(k.Argv, []string{"bash", "-l"}) || !slices.Equal(k.Env, []string{"A=1", "B=3"}) || k.User != "daemon" || k.Cwd != "/srv" || k.Timeout != 0 ||
			*k.TTY != (program.Terminal{Cols: 80, Rows: 50}) || started.Tag != name || int(started.Pid) != s.is.PID {
			t.Errorf("%s: started %v as %+v", name, started, k)
		}
		s.out.Write([]byte("seen\xc3"))
		u.until("seen\xc3")
		if _, err := c.PtySendInput(t.Context(), connect.NewRequest(&pb.PtySendInputRequest{SandboxId: "x", Tag: name, Data: []byte("typed")})); err != nil || s.typed != "typed" {
			t.Errorf("%s: it was typed %q, %v", name, s.typed, err)
		}
		testenv.Eventually(t, "the acknowledgement is stored", func() bool { return s.now().AckedBytes == 5 })
		u.leave()
		s.out.Write([]byte("missed "))
		again, started := attach(t, c, &pb.PtyAttachRequest{SandboxId: "x", Tag: name, Cols: 100})
		if is := s.now(); is.Cols != 100 || is.Rows != 50 || started.Tag != name {
			t.Errorf("%s: reattached to %v, with size %d x %d", name, started, is.Cols, is.Rows)
		}
		s.out.Write([]byte("and now"))
		if seen := again.until("now"); seen != "missed and now" {
			t.Errorf("%s: output after reattaching: got %q", name, seen)
		}
		other, _ := attach(t, c, &pb.PtyAttachRequest{SandboxId: "x", Tag: name, Offset: proto.Int64(1)})
		if seen := other.until("now"); seen != "een\xc3missed and now" {
			t.Errorf("%s: output from an offset: got %q", name, seen)
		}
		if _, err := c.PtyResize(t.Context(), connect.NewRequest(&pb.PtyResizeRequest{SandboxId: "x", Tag: name, Cols: 7, Rows: 8})); err != nil || s.now().Cols != 7 || s.now().Rows != 8 {
			t.Errorf("%s: resized: %+v, %v", name, s.now(), err)
		}
		for range 2 {
			if _, err := c.PtyKill(t.Context(), connect.NewRequest(&pb.PtyKillRequest{SandboxId: "x", Tag: name})); err != nil {
				t.Error(name, err)
			}
		}
		for _, one := range []*ptyUser{again, other} {
			if one.until(""); one.exited == nil || one.exited.ExitCode != 137 {
				t.Errorf("%s: got exit %v, want code 137", name, one.exited)
			}
		}
		late, _ := attach(t, c, &pb.PtyAttachRequest{SandboxId: "x", Tag: name, Cols: 100})
		if seen := late.until(""); !strings.HasSuffix("missed and now", seen) || late.exited.GetExitCode() != 137 {
			t.Errorf("%s: output after its end: got %q, %v", name, seen, late.exited)
		}
	}
}

// TestShellWithoutTag checks that clients attach to a shell of an agent by its ID.
func TestShellWithoutTag(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	c := dial(t, serve(t, a, ServeOptions{}))["grpc"]
	attach(t, c, &pb.PtyAttachRequest{SandboxId: "x", Tag: "one", Cmd: "sh"})
	s := f.shell("one")
	s.mu.Lock()
	id := s.is.ID
	s.is.Tag = ""
	s.mu.Unlock()
	s.out.Write([]byte("printed"))
	u, started := attach(t, c, &pb.PtyAttachRequest{SandboxId: "x", Tag: id})
	if seen := u.until("printed"); started.Tag != id || seen != "printed" {
		t.Errorf("got the tag %q and the output %q", started.Tag, seen)
	}
	if _, err := c.PtySendInput(t.Context(), connect.NewRequest(&pb.PtySendInputRequest{SandboxId: "x", Tag: id, Data: []byte("typed")})); err != nil || s.typed != "typed" {
		t.Errorf("it was typed %q, %v", s.typed, err)
	}
}

// TestSlowReader checks that a client that does not read does not delay another client.
func TestSlowReader(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	address := serve(t, a, ServeOptions{})
	slow, _ := attach(t, dial(t, address)["grpc"], &pb.PtyAttachRequest{SandboxId: "x", Tag: "one", Cmd: "flood"})
	s := f.shell("one")
	piece := bytes.Repeat([]byte("x"), 1<<20)
	for range 64 {
		s.out.Write(piece)
	}
	s.out.Write([]byte("the end"))
	s.end(program.Exit{})
	quick, _ := attach(t, dial(t, address)["grpc"], &pb.PtyAttachRequest{SandboxId: "x", Tag: "one", Offset: proto.Int64(s.out.Len() - 10)})
	if seen := quick.until(""); seen != "xxxthe end" || quick.exited == nil {
		t.Errorf("output of the fast reader: got %q, %v", seen, quick.exited)
	}
	// The slow client gets the output that was already sent, then a gap, then the output that is
	// still stored.
	got, gaps, next := 0, 0, int64(0)
	for slow.stream.Receive() {
		if o := slow.stream.Msg().GetOutput(); o != nil {
			if o.Offset != next {
				gaps++
			}
			got += len(o.Data)
			next = o.Offset + int64(len(o.Data))
		}
	}
	if slow.stream.Err() != nil || next != s.out.Len() || gaps == 0 || got > 32<<20 {
		t.Errorf("the slow one got %d bytes with %d gaps up to %d of %d: %v", got, gaps, next, s.out.Len(), slow.stream.Err())
	}
}

func TestTerminalErrors(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	m := fake{f}
	for tag, tty := range map[string]*program.Terminal{"pty": {Cols: 80, Rows: 24}, "process": nil, "ended": {Cols: 80, Rows: 24}} {
		if _, err := m.Open(t.Context(), tag, program.Command{Argv: []string{"x"}, TTY: tty}); err != nil {
			t.Fatal(err)
		}
	}
	f.shell("ended").end(program.Exit{})
	c := dial(t, serve(t, a, ServeOptions{}))["grpc"]
	for name, e := range map[string]struct {
		code connect.Code
		err  error
	}{
		"no sandbox":              {connect.CodeNotFound, attachError(t, c, &pb.PtyAttachRequest{SandboxId: "none", Tag: "pty"})},
		"neither":                 {connect.CodeInvalidArgument, attachError(t, c, &pb.PtyAttachRequest{SandboxId: "x"})},
		"no such tag":             {connect.CodeNotFound, attachError(t, c, &pb.PtyAttachRequest{SandboxId: "x", Tag: "none"})},
		"a tag that is used":      {connect.CodeAlreadyExists, attachError(t, c, &pb.PtyAttachRequest{SandboxId: "x", Tag: "pty", Cmd: "x"})},
		"no terminal":             {connect.CodeFailedPrecondition, attachError(t, c, &pb.PtyAttachRequest{SandboxId: "x", Tag: "process"})},
		"a huge one":              {connect.CodeInvalidArgument, attachError(t, c, &pb.PtyAttachRequest{SandboxId: "x", Tag: "new", Cmd: "x", Cols: 1001})},
		"a strange tag":           {connect.CodeInvalidArgument, attachError(t, c, &pb.PtyAttachRequest{SandboxId: "x", Tag: "\x1b[", Cmd: "x"})},
		"a long tag":              {connect.CodeInvalidArgument, attachError(t, c, &pb.PtyAttachRequest{SandboxId: "x", Tag: strings.Repeat("x", 257), Cmd: "x"})},
		"a relative folder":       {connect.CodeInvalidArgument, attachError(t, c, &pb.PtyAttachRequest{SandboxId: "x", Tag: "new", Cmd: "x", Cwd: "y"})},
		"an offset in the future": {connect.CodeInvalidArgument, attachError(t, c, &pb.PtyAttachRequest{SandboxId: "x", Tag: "pty", Offset: proto.Int64(1)})},
		"type to none":            {connect.CodeNotFound, only(c.PtySendInput(t.Context(), connect.NewRequest(&pb.PtySendInputRequest{SandboxId: "x", Tag: "none"})))},
		"type to no tag":          {connect.CodeInvalidArgument, only(c.PtySendInput(t.Context(), connect.NewRequest(&pb.PtySendInputRequest{SandboxId: "x"})))},
		"type to the dead":        {connect.CodeFailedPrecondition, only(c.PtySendInput(t.Context(), connect.NewRequest(&pb.PtySendInputRequest{SandboxId: "x", Tag: "ended"})))},
		"type a book":             {connect.CodeInvalidArgument, only(c.PtySendInput(t.Context(), connect.NewRequest(&pb.PtySendInputRequest{SandboxId: "x", Tag: "pty", Data: make([]byte, 1<<20+1)})))},
		"no columns":              {connect.CodeInvalidArgument, only(c.PtyResize(t.Context(), connect.NewRequest(&pb.PtyResizeRequest{SandboxId: "x", Tag: "pty", Rows: 1})))},
		"kill none":               {connect.CodeNotFound, only(c.PtyKill(t.Context(), connect.NewRequest(&pb.PtyKillRequest{SandboxId: "x", Tag: "none"})))},
		"kill a process":          {connect.CodeFailedPrecondition, only(c.PtyKill(t.Context(), connect.NewRequest(&pb.PtyKillRequest{SandboxId: "x", Tag: "process"})))},
		"kill by nothing":         {connect.CodeInvalidArgument, only(c.KillProcess(t.Context(), connect.NewRequest(&pb.KillProcessRequest{SandboxId: "x"})))},
		"kill a terminal": {connect.CodeFailedPrecondition, only(c.KillProcess(t.Context(), connect.NewRequest(&pb.KillProcessRequest{
			SandboxId: "x", Selector: &pb.KillProcessRequest_Tag{Tag: "pty"},
		})))},
		"kill an unknown number": {connect.CodeNotFound, only(c.KillProcess(t.Context(), connect.NewRequest(&pb.KillProcessRequest{
			SandboxId: "x", Selector: &pb.KillProcessRequest_Pid{Pid: 99999},
		})))},
		"an unknown signal": {connect.CodeInvalidArgument, only(c.KillProcess(t.Context(), connect.NewRequest(&pb.KillProcessRequest{
			SandboxId: "x", Selector: &pb.KillProcessRequest_Tag{Tag: "process"}, Signal: "SIGSTOP",
		})))},
		"start nothing":        {connect.CodeInvalidArgument, only(c.StartBackground(t.Context(), connect.NewRequest(&pb.StartBackgroundRequest{SandboxId: "x"})))},
		"start a second":       {connect.CodeAlreadyExists, only(c.StartBackground(t.Context(), connect.NewRequest(&pb.StartBackgroundRequest{SandboxId: "x", Tag: "process", Cmd: "x"})))},
		"list of none":         {connect.CodeNotFound, only(c.ListProcesses(t.Context(), connect.NewRequest(&pb.ListProcessesRequest{SandboxId: "none"})))},
		"an offset before all": {connect.CodeInvalidArgument, connectError(t, c, &pb.ConnectProcessRequest{SandboxId: "x", Selector: &pb.ConnectProcessRequest_Tag{Tag: "process"}, StderrOffset: -1})},
		"connect to nothing":   {connect.CodeInvalidArgument, connectError(t, c, &pb.ConnectProcessRequest{SandboxId: "x"})},
	} {
		if detail := detailOf(e.err); connect.CodeOf(e.err) != e.code || detail.Kind == "" {
			t.Errorf("%s: %v, %v", name, e.err, detail)
		} else if e.code != connect.CodeInvalidArgument && detail.Hint == "" {
			t.Errorf("%s: no hint in %v", name, detail)
		}
	}
}

func only[T any](_ T, err error) error { return err }

// attachError returns the error from an attempt to attach.
func attachError(t *testing.T, c hostagentv1connect.HostAgentServiceClient, q *pb.PtyAttachRequest) error {
	stream, err := c.PtyAttach(t.Context(), connect.NewRequest(q))
	if err != nil {
		return err
	}
	defer stream.Close()
	if stream.Receive() {
		return errors.New("it is attached")
	}
	return stream.Err()
}

// connectError returns the error from an attempt to connect.
func connectError(t *testing.T, c hostagentv1connect.HostAgentServiceClient, q *pb.ConnectProcessRequest) error {
	stream, err := c.ConnectProcess(t.Context(), connect.NewRequest(q))
	if err != nil {
		return err
	}
	defer stream.Close()
	if stream.Receive() {
		return errors.New("it is connected")
	}
	return stream.Err()
}

func TestProcesses(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x", DefaultUser: "daemon"})
	for name, c := range dial(t, serve(t, a, ServeOptions{})) {
		first, err := c.StartBackground(t.Context(), connect.NewRequest(&pb.StartBackgroundRequest{SandboxId: "x", Cmd: "serve", Args: []string{"-p", "80"}, Envs: map[string]string{"A": "1"}, User: "root", Tag: name}))
		if err != nil {
			t.Fatal(name, err)
		}
		unnamed, err := c.StartBackground(t.Context(), connect.NewRequest(&pb.StartBackgroundRequest{SandboxId: "x", Cmd: "true"}))
		if err != nil || !strings.HasPrefix(unnamed.Msg.Tag, "proc-") || len(unnamed.Msg.Tag) != len("proc-")+8 {
			t.Fatal(name, unnamed, err)
		}
		s := f.shell(name)
		if k := s.command; k.TTY != nil || k.User != "root" || k.Timeout != 0 || !slices.Equal(k.Env, []string{"A=1"}) || first.Msg.Tag != name {
			t.Errorf("%s: %v is %+v", name, first.Msg, k)
		}
		list := func() []*pb.ProcessInfo {
			r, err := c.ListProcesses(t.Context(), connect.NewRequest(&pb.ListProcessesRequest{SandboxId: "x"}))
			if err != nil {
				t.Fatal(name, err)
			}
			return r.Msg.Processes
		}
		if all := list(); len(all) != 2 || all[0].Pid != first.Msg.Pid || all[0].Tag != name || all[0].Cmd != "serve" || !slices.Equal(all[0].Args, []string{"-p", "80"}) {
			t.Errorf("%s: listed %v", name, all)
		}
		s.out.Write([]byte("before "))
		s.errs.Write([]byte("wrong "))
		stream, err := c.ConnectProcess(t.Context(), connect.NewRequest(&pb.ConnectProcessRequest{SandboxId: "x", Selector: &pb.ConnectProcessRequest_Pid{Pid: first.Msg.Pid}, StderrOffset: 2}))
		if err != nil {
			t.Fatal(name, err)
		}
		defer stream.Close()
		var out, errs string
		var end *pb.ExecStreamEnd
		for n := 0; stream.Receive(); n++ {
			switch e := stream.Msg().Event.(type) {
			case *pb.ConnectProcessResponse_Start:
				if n != 0 || e.Start.Pid != first.Msg.Pid {
					t.Errorf("%s: message %d is %v", name, n, e)
				}
			case *pb.ConnectProcessResponse_Data:
				out, errs = out+string(e.Data.GetStdout()), errs+string(e.Data.GetStderr())
				if string(e.Data.GetStdout()) == "before " { // the program still runs: send it a signal, then kill it
					s.out.Write([]byte("after"))
					if _, err := c.KillProcess(t.Context(), connect.NewRequest(&pb.KillProcessRequest{SandboxId: "x", Selector: &pb.KillProcessRequest_Pid{Pid: first.Msg.Pid}, Signal: "SIGTERM"})); err != nil {
						t.Error(name, err)
					}
					for range 2 {
						if _, err := c.KillProcess(t.Context(), connect.NewRequest(&pb.KillProcessRequest{SandboxId: "x", Selector: &pb.KillProcessRequest_Tag{Tag: name}})); err != nil {
							t.Error(name, err)
						}
					}
				}
			case *pb.ConnectProcessResponse_End:
				end = e.End
			}
		}
		if stream.Err() != nil || out != "before after" || errs != "ong " || end.GetExitCode() != 137 || !slices.Equal(s.signals, []syscall.Signal{syscall.SIGTERM}) {
			t.Errorf("%s: it printed %q and %q, got %v and ended with %v: %v", name, out, errs, s.signals, end, stream.Err())
		}
		if _, err := c.KillProcess(t.Context(), connect.NewRequest(&pb.KillProcessRequest{SandboxId: "x", Selector: &pb.KillProcessRequest_Tag{Tag: name}, Signal: "SIGTERM"})); connect.CodeOf(err) != connect.CodeFailedPrecondition {
			t.Errorf("%s: signal to an ended program: got %v", name, err)
		}
		f.shell(unnamed.Msg.Tag).end(program.Exit{})
		if all := list(); len(all) != 0 {
			t.Errorf("%s: left: %v", name, all)
		}
	}
}

// TestWatchersAtShutdown checks that observing clients do not delay the shutdown, and that programs
// keep running.
func TestWatchersAtShutdown(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	c := dial(t, serve(t, a, ServeOptions{}))["grpc"]
	u, _ := attach(t, c, &pb.PtyAttachRequest{SandboxId: "x", Tag: "one", Cmd: "sh"})
	a.drain()
	if u.stream.Receive() || connect.CodeOf(u.stream.Err()) != connect.CodeUnavailable || fault.Kind(detailOf(u.stream.Err()).Kind) != fault.Unavailable || detailOf(u.stream.Err()).Hint == "" {
		t.Errorf("got message %v and error %v, want unavailable", u.stream.Msg(), u.stream.Err())
	}
	if !f.shell("one").now().EndedAt.IsZero() {
		t.Error("the program has ended")
	}
}
