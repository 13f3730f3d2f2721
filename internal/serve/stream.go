package serve

import (
	"context"
	"encoding/base64"
	"net/http"
	"strconv"
	"unicode/utf8"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

// streamTimeout is the time limit of a program of a stream, in seconds, if the client names none.
// It is the maximum of the host agent, because the client can stop the program.
const streamTimeout = 7 * 24 * 3600

// selected is the input for the stream of a program in the background.
type selected struct {
	ByID
	Selector     string `path:"selector" maxLength:"256" doc:"A PID, or a tag"`
	StdoutOffset int64  `query:"stdout_offset" minimum:"0" doc:"Start at this byte of the standard output; 0: at the oldest stored byte"`
	StderrOffset int64  `query:"stderr_offset" minimum:"0" doc:"The same for the standard error"`
	Window       int64  `query:"window" minimum:"0" doc:"The largest number of bytes that the server sends before the client confirms them with ack; 0: no limit"`
}

func (s *Server) bindStreams(base string) {
	one := "/v1/" + base + "/{id}"
	bindSocket(s, operation(http.MethodGet, one+"/exec/stream", base+"-exec-stream", "Run a program, and stream its output over a WebSocket", store.RoleMember),
		func(in *ByID) string { return in.ID }, s.execStream)
	bindSocket(s, operation(http.MethodGet, one+"/processes/{selector}/stream", base+"-processes-stream", "Stream the output of a program in the background over a WebSocket", store.RoleMember),
		func(in *selected) string { return in.ID }, s.processStream)
}

// execStream runs the program of the frame start. The program is killed when the connection ends.
func (s *Server) execStream(c *socket, in *ByID) error {
	f, err := c.next()
	switch {
	case err != nil:
		return err
	case f.Type == "stop":
		return nil
	case f.Type != "start" || f.Cmd == "":
		return fault.Newf(fault.Invalid, "the first frame must be of the type start, with cmd")
	}
	client, err := s.control.Client(c.ctx, c.by.Actor, in.ID)
	if err != nil {
		return err
	}
	req := &pb.ExecStreamRequest{SandboxId: in.ID, Cmd: f.Cmd, Args: f.Args, TimeoutSec: f.TimeoutSec, Envs: f.Envs, Cwd: f.Cwd, User: f.User}
	if req.TimeoutSec == 0 {
		req.TimeoutSec = streamTimeout
	}
	ctx, stop := context.WithCancel(c.ctx)
	defer stop()
	c.run(stop, func() error {
		stream, err := client.ExecStream(ctx, connect.NewRequest(req))
		if err != nil {
			return control.FromHost(err)
		}
		defer stream.Close()
		more := stream.Receive()
		s.control.Record(ctx, c.by.Actor, control.ActExec, in.ID, control.FromHost(stream.Err()))
		out := output{to: c}
		for ; more; more = stream.Receive() {
			if last, err := out.event(stream.Msg()); last || err != nil {
				return err
			}
		}
		return ended(stream.Err())
	}, onlyStop)
	return nil
}

// processStream sends the stored output of a program in the background, and then its new output.
// The program continues when the connection ends.
func (s *Server) processStream(c *socket, in *selected) error {
	client, err := s.control.Client(c.ctx, c.by.Actor, in.ID)
	if err != nil {
		return err
	}
	req := &pb.ConnectProcessRequest{
		SandboxId: in.ID, Selector: &pb.ConnectProcessRequest_Tag{Tag: in.Selector}, StdoutOffset: in.StdoutOffset, StderrOffset: in.StderrOffset,
	}
	if pid, err := strconv.ParseUint(in.Selector, 10, 32); err == nil {
		req.Selector = &pb.ConnectProcessRequest_Pid{Pid: uint32(pid)}
	}
	ctx, stop := context.WithCancel(c.ctx)
	defer stop()
	w := newWindow(in.Window)
	c.run(stop, func() error {
		stream, err := client.ConnectProcess(ctx, connect.NewRequest(req))
		if err != nil {
			return control.FromHost(err)
		}
		defer stream.Close()
		out := output{to: c, offsets: true, room: func(n int) error { return w.wait(ctx, n) }}
		size := func(m *pb.ConnectProcessResponse) int {
			return len(m.GetData().GetStdout()) + len(m.GetData().GetStderr())
		}
		return forEach(ctx, stop, stream, w, size, func(m *pb.ConnectProcessResponse) (bool, error) { return out.event(m) })
	}, func(f frame) error {
		if f.Type != "ack" {
			return onlyStop(f)
		}
		w.confirm(f.Bytes)
		return nil
	})
	return nil
}

// onlyStop handles the frames of a client that can only send the frame stop.
func onlyStop(f frame) error {
	if f.Type == "stop" {
		return errStopped
	}
	return fault.Newf(fault.Invalid, "a frame of the type %.40q: after the start, only stop is allowed", f.Type)
}

// ended returns the error for a stream that a host ended without an exit code.
func ended(err error) error {
	if err = control.FromHost(err); err == nil {
		err = fault.Newf(fault.Unavailable, "the host ended the stream before the program ended")
	}
	return err
}

// output turns the events of a program into frames.
type output struct {
	to             *socket
	offsets        bool              // frames have offsets
	room           func(n int) error // waits until the client can take n more bytes; nil: it always can
	stdout, stderr half
}

// half is one output stream of a program. The host can split a character between two events. So
// half keeps the incomplete character for the next frame.
type half struct {
	rest []byte
	next int64 // the offset of the byte after rest
}

// programEvent is an event of a program that a host streams. At most one of its parts is not nil.
type programEvent interface {
	GetStart() *pb.ExecStreamStart
	GetData() *pb.ExecStreamData
	GetEnd() *pb.ExecStreamEnd
}

// event sends frames for an event. last reports whether the program has ended.
func (o *output) event(e programEvent) (last bool, err error) {
	if start := e.GetStart(); start != nil {
		return false, o.to.send(event{Type: "start", PID: &start.Pid})
	}
	if data := e.GetData(); data != nil {
		return false, o.data(data)
	}
	if end := e.GetEnd(); end != nil {
		return true, o.end(end)
	}
	return false, nil
}

// data sends frames for a part of the output.
func (o *output) data(d *pb.ExecStreamData) error {
	h, kind, data := &o.stdout, "stdout", d.GetStdout()
	if _, ok := d.Output.(*pb.ExecStreamData_Stderr); ok {
		h, kind, data = &o.stderr, "stderr", d.GetStderr()
	}
	if o.offsets && d.Offset != h.next { // the host has dropped output
		if err := o.flush(h, kind); err != nil {
			return err
		}
		h.next = d.Offset
	}
	all := append(h.rest, data...)
	n := len(all) - incomplete(all)
	h.next += int64(len(data))
	whole := all[:n]
	h.rest = append([]byte(nil), all[n:]...)
	return o.send(kind, whole, h.next-int64(len(all)))
}

// flush sends an incomplete character at the end of the output.
func (o *output) flush(h *half, kind string) error {
	rest := h.rest
	h.rest = nil
	return o.send(kind, rest, h.next-int64(len(rest)))
}

// end sends the rest of the output and the exit code.
func (o *output) end(e *pb.ExecStreamEnd) error {
	if err := o.flush(&o.stdout, "stdout"); err != nil {
		return err
	}
	if err := o.flush(&o.stderr, "stderr"); err != nil {
		return err
	}
	return o.to.send(event{Type: "exit", ExitCode: &e.ExitCode, Error: e.Error})
}

func (o *output) send(kind string, data []byte, offset int64) error {
	if len(data) == 0 {
		return nil
	}
	if o.room != nil {
		if err := o.room(len(data)); err != nil {
			return err
		}
	}
	e := event{Type: kind, Data: string(data)}
	if !utf8.Valid(data) {
		e.Data, e.Encoding = base64.StdEncoding.EncodeToString(data), "base64"
	}
	if o.offsets {
		e.Offset = &offset
	}
	return o.to.send(e)
}

// incomplete returns the length of the incomplete UTF-8 character at the end of a text, in bytes.
func incomplete(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}
