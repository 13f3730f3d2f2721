package serve

import (
	"cmp"
	"context"
	"encoding/base64"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/danielgtaylor/huma/v2"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

// If a client requests defaultShell without arguments, it gets bash if the sandbox has it,
// otherwise sh.
const (
	defaultShell = "/bin/bash"
	findShell    = "[ -x /bin/bash ] && exec /bin/bash; exec /bin/sh"
)

// Terminal describes a program on a terminal.
type Terminal struct {
	Tag      string    `json:"tag" doc:"The name by which clients connect to it"`
	Cols     int       `json:"cols"`
	Rows     int       `json:"rows"`
	OpenedAt time.Time `json:"opened_at"`
}

// Terminals lists the running terminals.
type Terminals struct {
	Terminals []Terminal `json:"terminals" doc:"The running terminals, the oldest first"`
}

func (s *Server) bindPty(base string) {
	huma.Register(s.api, operation(http.MethodGet, "/v1/"+base+"/{id}/terminals", base+"-terminals", "List the running terminals, including those that agents opened", store.RoleViewer),
		func(ctx context.Context, in *ByID) (*body[Terminals], error) {
			found, err := callOperation[struct{}, pyro.WorkspaceShells](ctx, s, in.ID, "list_shells", false, struct{}{})
			if err != nil {
				return nil, err
			}
			all := Terminals{[]Terminal{}}
			for _, t := range found.Shells {
				if t.State == pyro.ShellRunning {
					all.Terminals = append(all.Terminals, Terminal{cmp.Or(t.Tag, t.ShellID), t.Cols, t.Rows, t.OpenedAt})
				}
			}
			return &body[Terminals]{all}, nil
		})
	bindSocket(s, operation(http.MethodGet, "/v1/"+base+"/{id}/pty", base+"-pty", "Open a terminal over a WebSocket, or connect to one again", store.RoleMember),
		func(in *ByID) string { return in.ID }, s.pty)
}

// pty connects a client to a terminal. The program on the terminal continues when the connection
// ends.
func (s *Server) pty(c *socket, in *ByID) error {
	f, err := c.next()
	if err != nil {
		return err
	}
	req, err := attach(in.ID, f)
	if err != nil {
		return err
	}
	client, err := s.control.Client(c.ctx, c.by.Actor, in.ID)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(c.ctx)
	defer stop()
	stream, err := client.PtyAttach(ctx, connect.NewRequest(req))
	if err != nil {
		return control.FromHost(err)
	}
	defer stream.Close()
	more := stream.Receive()
	s.control.Record(ctx, c.by.Actor, control.ActTerminal, in.ID, control.FromHost(stream.Err()))
	if !more {
		return ended(stream.Err())
	}
	started := stream.Msg().GetStarted()
	pid, tag := started.GetPid(), started.GetTag()
	if err := c.send(event{Type: "started", Tag: tag, PID: &pid}); err != nil {
		return err
	}
	c.pings.Store(true)
	t := terminal{socket: c, host: client, id: in.ID, tag: tag, all: &s.terminals, window: newWindow(f.Window)}
	t.client = t.all.join(terminalID{in.ID, tag}, c.by.Actor, f.Type == "start")
	defer t.all.leave(t.client)
	if f.Holder {
		var following sync.WaitGroup
		following.Go(func() { t.all.follow(ctx, t.client, c.send) })
		defer following.Wait()
		defer stop()
	}
	size := func(m *pb.PtyAttachResponse) int { return len(m.GetOutput().GetData()) }
	c.run(stop, func() error {
		return forEach(ctx, stop, stream, t.window, size, func(m *pb.PtyAttachResponse) (bool, error) { return t.event(ctx, m) })
	}, func(f frame) error { return t.do(ctx, f) })
	return nil
}

// attach returns the request to the host agent for a client's first frame. It fails if the frame's
// type is neither start nor connect.
func attach(id string, f frame) (*pb.PtyAttachRequest, error) {
	req := &pb.PtyAttachRequest{SandboxId: id, Tag: f.Tag, Cols: f.Cols, Rows: f.Rows, Offset: &f.Offset}
	switch f.Type {
	case "connect":
		if f.Tag == "" {
			return nil, fault.Newf(fault.Invalid, "tag is missing").WithHint("send the tag that the frame started contained")
		}
	case "start":
		req.Cmd, req.Args, req.Envs, req.Cwd, req.User, req.Offset = f.Cmd, f.Args, f.Envs, f.Cwd, f.User, nil
		if (f.Cmd == "" || f.Cmd == defaultShell) && len(f.Args) == 0 {
			req.Cmd, req.Args = "/bin/sh", []string{"-c", findShell}
		} else if f.Cmd == "" {
			req.Cmd = defaultShell
		}
	default:
		return nil, fault.Newf(fault.Invalid, "the first frame must be of the type start or connect")
	}
	return req, nil
}

// terminal is a terminal that a client has started or connected to.
type terminal struct {
	*socket
	host   hostClient
	id     string // of the sandbox
	tag    string
	all    *terminals
	client *terminalClient
	window *window
}

// event sends a frame for an event, when the client has room for it. last reports whether the
// program has ended.
func (t terminal) event(ctx context.Context, m *pb.PtyAttachResponse) (last bool, err error) {
	switch e := m.Event.(type) {
	case *pb.PtyAttachResponse_Output:
		if err := t.window.wait(ctx, len(e.Output.Data)); err != nil {
			return false, err
		}
		data := base64.StdEncoding.EncodeToString(e.Output.Data)
		return false, t.send(event{Type: "output", Data: data, Offset: &e.Output.Offset})
	case *pb.PtyAttachResponse_Exited:
		return true, t.send(event{Type: "exit", ExitCode: &e.Exited.ExitCode, Error: e.Exited.Error})
	}
	return false, nil
}

// do handles a frame of the client. It returns after the host has handled the frame. So frames keep
// their order, and a slow host slows the client down. Errors of the host do not end the connection.
// If the program has ended, its exit event will follow.
func (t terminal) do(ctx context.Context, f frame) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var err error
	switch f.Type {
	case "hold":
		t.all.hold(t.client)
		return nil
	case "release":
		t.all.release(t.client)
		return nil
	case "ack":
		t.window.confirm(f.Bytes)
		return nil
	case "input", "resize", "kill":
		err = t.all.use(t.client, f.Type == "input")
	default:
		return fault.Newf(fault.Invalid, "a frame of the type %.40q: after the first frame, only input, resize, kill, hold, release and ack are allowed", f.Type)
	}
	if err != nil {
		t.report(err, false)
		return nil
	}
	switch f.Type {
	case "input":
		_, err = t.host.PtySendInput(ctx, connect.NewRequest(&pb.PtySendInputRequest{SandboxId: t.id, Tag: t.tag, Data: f.Data}))
	case "resize":
		_, err = t.host.PtyResize(ctx, connect.NewRequest(&pb.PtyResizeRequest{SandboxId: t.id, Tag: t.tag, Cols: f.Cols, Rows: f.Rows}))
	case "kill":
		_, err = t.host.PtyKill(ctx, connect.NewRequest(&pb.PtyKillRequest{SandboxId: t.id, Tag: t.tag}))
	}
	if err != nil && t.ctx.Err() == nil {
		t.report(control.FromHost(err), false)
	}
	return nil
}
