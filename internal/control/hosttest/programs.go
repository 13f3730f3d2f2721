package hosttest

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"connectrpc.com/connect"

	hostv1 "github.com/pyro-mcp/pyro/internal/gen/host/v1"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/gen/hostagent/v1/hostagentv1connect"
)

// programs are the programs and the files of all sandboxes.
type programs struct {
	sync.Mutex
	terminals map[string]*terminal // by tag
	files     map[string]string    // the first MiB of each file, by path
	killed    atomic.Int64
	printed   atomic.Int64
	received  atomic.Int64
}

// Killed returns the number of programs that were killed because their client disconnected.
func (h *Host) Killed() int64 { return h.programs.killed.Load() }

// Printed returns the number of bytes that the program flood has printed.
func (h *Host) Printed() int64 { return h.programs.printed.Load() }

// Received returns the number of received bytes of files.
func (h *Host) Received() int64 { return h.programs.received.Load() }

// File returns the first MiB of a file that was written completely.
func (h *Host) File(path string) (content string, ok bool) {
	h.programs.Lock()
	defer h.programs.Unlock()
	content, ok = h.programs.files[path]
	return content, ok
}

// TakeFiles returns the files that were written completely, by path, and forgets them.
func (h *Host) TakeFiles() map[string]string {
	h.programs.Lock()
	defer h.programs.Unlock()
	all := h.programs.files
	h.programs.files = nil
	return all
}

// agent is the part of the host agent's service that needs a connection.
type agent struct {
	hostagentv1connect.UnimplementedHostAgentServiceHandler

	host *Host
}

// ExecStream implements the client of the host agent.
func (h *Host) ExecStream(ctx context.Context, req *connect.Request[pb.ExecStreamRequest]) (*connect.ServerStreamForClient[pb.ExecStreamResponse], error) {
	return h.service().ExecStream(ctx, req)
}

// ExecStream implements the programs bytes, exit, wait and flood. The arguments of bytes are output
// in hex; an argument that begins with "!" goes to standard error. The argument of exit is the exit
// code.
func (a agent) ExecStream(ctx context.Context, req *connect.Request[pb.ExecStreamRequest], to *connect.ServerStream[pb.ExecStreamResponse]) error {
	send := func(stdout, stderr []byte) error {
		d := &pb.ExecStreamData{Output: &pb.ExecStreamData_Stdout{Stdout: stdout}}
		if stderr != nil {
			d.Output = &pb.ExecStreamData_Stderr{Stderr: stderr}
		}
		return to.Send(&pb.ExecStreamResponse{Event: &pb.ExecStreamResponse_Data{Data: d}})
	}
	if err := to.Send(&pb.ExecStreamResponse{Event: &pb.ExecStreamResponse_Start{Start: &pb.ExecStreamStart{Pid: 7}}}); err != nil {
		return err
	}
	code := 0
	switch m := req.Msg; m.Cmd {
	case "bytes":
		for _, arg := range m.Args {
			text, errors := strings.CutPrefix(arg, "!")
			data, err := hex.DecodeString(text)
			if err == nil && errors {
				err = send(nil, data)
			} else if err == nil {
				err = send(data, nil)
			}
			if err != nil {
				return err
			}
		}
	case "exit":
		code, _ = strconv.Atoi(m.Args[0])
	case "wait":
		<-ctx.Done()
		a.host.programs.killed.Add(1)
		return ctx.Err()
	case "flood":
		for line := []byte(strings.Repeat("flood ", 10000)); ; a.host.programs.printed.Add(int64(len(line))) {
			if err := send(line, nil); err != nil {
				a.host.programs.killed.Add(1)
				return err
			}
		}
	default:
		return failed(connect.CodeInvalidArgument, "there is no such program")
	}
	return to.Send(&pb.ExecStreamResponse{Event: &pb.ExecStreamResponse_End{End: &pb.ExecStreamEnd{ExitCode: int32(code)}}})
}

// ConnectProcess implements the client of the host agent.
func (h *Host) ConnectProcess(ctx context.Context, req *connect.Request[pb.ConnectProcessRequest]) (*connect.ServerStreamForClient[pb.ConnectProcessResponse], error) {
	return h.service().ConnectProcess(ctx, req)
}

// ConnectProcess knows the program with the tag "greets", which has printed "hello\n" and dropped
// the first 100 bytes of its standard error. It also knows the program with the tag "cut", whose
// output ends within a character.
func (a agent) ConnectProcess(_ context.Context, req *connect.Request[pb.ConnectProcessRequest], to *connect.ServerStream[pb.ConnectProcessResponse]) error {
	data := func(d *pb.ExecStreamData) *pb.ConnectProcessResponse {
		return &pb.ConnectProcessResponse{Event: &pb.ConnectProcessResponse_Data{Data: d}}
	}
	all, from := []*pb.ConnectProcessResponse{{Event: &pb.ConnectProcessResponse_Start{Start: &pb.ExecStreamStart{Pid: 8}}}}, req.Msg.StdoutOffset
	switch req.Msg.GetTag() {
	case "greets":
		all = append(all,
			data(&pb.ExecStreamData{Output: &pb.ExecStreamData_Stdout{Stdout: []byte("hello\n")[from:]}, Offset: from}),
			data(&pb.ExecStreamData{Output: &pb.ExecStreamData_Stderr{Stderr: []byte("late \xc3")}, Offset: 100}),
			data(&pb.ExecStreamData{Output: &pb.ExecStreamData_Stderr{Stderr: []byte("\xa9")}, Offset: 106}))
	case "cut":
		all = append(all, data(&pb.ExecStreamData{Output: &pb.ExecStreamData_Stdout{Stdout: []byte("a\xc3")}}))
	default:
		return failed(connect.CodeNotFound, "no program has the tag")
	}
	for _, r := range append(all, &pb.ConnectProcessResponse{Event: &pb.ConnectProcessResponse_End{End: &pb.ExecStreamEnd{ExitCode: 3}}}) {
		if err := to.Send(r); err != nil {
			return err
		}
	}
	return nil
}

// terminal is a terminal that echoes its input. Its program ends with the input "exit\r".
type terminal struct {
	output  []byte
	ended   bool
	code    int32
	started *pb.PtyAttachRequest
	changed chan struct{} // closed at the next change
}

// PtyAttach implements the client of the host agent.
func (h *Host) PtyAttach(ctx context.Context, req *connect.Request[pb.PtyAttachRequest]) (*connect.ServerStreamForClient[pb.PtyAttachResponse], error) {
	return h.service().PtyAttach(ctx, req)
}

// Started returns the request that started a terminal.
func (h *Host) Started(tag string) *pb.PtyAttachRequest {
	h.programs.Lock()
	defer h.programs.Unlock()
	return h.programs.terminals[tag].started
}

// PtyAttach implements the host agent's service.
func (a agent) PtyAttach(ctx context.Context, req *connect.Request[pb.PtyAttachRequest], to *connect.ServerStream[pb.PtyAttachResponse]) error {
	p, m := &a.host.programs, req.Msg
	p.Lock()
	tag := m.Tag
	if tag == "" {
		tag = fmt.Sprintf("pty-%08x", len(p.terminals))
	}
	t := p.terminals[tag]
	if t == nil && m.Cmd != "" {
		if p.terminals == nil {
			p.terminals = map[string]*terminal{}
		}
		t = &terminal{started: m, changed: make(chan struct{})}
		p.terminals[tag] = t
	}
	p.Unlock()
	if t == nil {
		return failed(connect.CodeNotFound, "no program has the tag")
	}
	if err := to.Send(&pb.PtyAttachResponse{Event: &pb.PtyAttachResponse_Started{Started: &pb.PtyStarted{Pid: 9, Tag: tag}}}); err != nil {
		return err
	}
	for at := m.GetOffset(); ; {
		p.Lock()
		data, ended, code, changed := append([]byte(nil), t.output[at:]...), t.ended, t.code, t.changed
		p.Unlock()
		switch {
		case len(data) > 0:
			if err := to.Send(&pb.PtyAttachResponse{Event: &pb.PtyAttachResponse_Output{Output: &pb.PtyOutput{Data: data, Offset: at}}}); err != nil {
				return err
			}
			at += int64(len(data))
			continue
		case ended:
			return to.Send(&pb.PtyAttachResponse{Event: &pb.PtyAttachResponse_Exited{Exited: &pb.PtyExited{ExitCode: code}}})
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// on calls change for the terminal with a tag.
func (h *Host) on(tag string, change func(*terminal) error) error {
	h.programs.Lock()
	defer h.programs.Unlock()
	t := h.programs.terminals[tag]
	if t == nil {
		return failed(connect.CodeNotFound, "no program has the tag")
	}
	if t.ended {
		return failed(connect.CodeFailedPrecondition, "the program has ended")
	}
	err := change(t)
	close(t.changed)
	t.changed = make(chan struct{})
	return err
}

// PtySendInput implements the client of the host agent.
func (h *Host) PtySendInput(_ context.Context, req *connect.Request[pb.PtySendInputRequest]) (*connect.Response[pb.PtySendInputResponse], error) {
	return connect.NewResponse(&pb.PtySendInputResponse{}), h.on(req.Msg.Tag, func(t *terminal) error {
		t.output = append(t.output, req.Msg.Data...)
		t.ended = string(req.Msg.Data) == "exit\r"
		return nil
	})
}

// PtyResize implements the client of the host agent. The terminal prints its new size.
func (h *Host) PtyResize(_ context.Context, req *connect.Request[pb.PtyResizeRequest]) (*connect.Response[pb.PtyResizeResponse], error) {
	return connect.NewResponse(&pb.PtyResizeResponse{}), h.on(req.Msg.Tag, func(t *terminal) error {
		if req.Msg.Cols == 0 {
			return failed(connect.CodeInvalidArgument, "0 columns")
		}
		t.output = fmt.Appendf(t.output, "%dx%d", req.Msg.Cols, req.Msg.Rows)
		return nil
	})
}

// PtyKill implements the client of the host agent.
func (h *Host) PtyKill(_ context.Context, req *connect.Request[pb.PtyKillRequest]) (*connect.Response[pb.PtyKillResponse], error) {
	return connect.NewResponse(&pb.PtyKillResponse{}), h.on(req.Msg.Tag, func(t *terminal) error {
		t.ended, t.code = true, 137
		return nil
	})
}

// WriteFileStream implements the client of the host agent.
func (h *Host) WriteFileStream(ctx context.Context) *connect.ClientStreamForClient[pb.WriteFileStreamRequest, pb.WriteFileStreamResponse] {
	return h.service().WriteFileStream(ctx)
}

// WriteFileStream implements the host agent's service.
func (a agent) WriteFileStream(_ context.Context, from *connect.ClientStream[pb.WriteFileStreamRequest]) (*connect.Response[pb.WriteFileStreamResponse], error) {
	const shown = 1 << 20
	var content []byte
	from.Receive()
	path := from.Msg().GetMeta().GetPath()
	for from.Receive() {
		chunk := from.Msg().GetChunk()
		content = append(content, chunk[:min(len(chunk), shown-len(content))]...)
		a.host.programs.received.Add(int64(len(chunk)))
	}
	if err := from.Err(); err != nil && err != io.EOF {
		return nil, err
	}
	a.host.programs.Lock()
	defer a.host.programs.Unlock()
	if a.host.programs.files == nil {
		a.host.programs.files = map[string]string{}
	}
	a.host.programs.files[path] = string(content)
	return connect.NewResponse(&pb.WriteFileStreamResponse{}), nil
}

// RenamePath implements the client of the host agent. It renames files that were written.
func (h *Host) RenamePath(_ context.Context, req *connect.Request[hostv1.RenamePathRequest]) (*connect.Response[hostv1.RenamePathResponse], error) {
	h.programs.Lock()
	defer h.programs.Unlock()
	files := h.programs.files
	content, ok := files[req.Msg.OldPath]
	switch _, taken := files[req.Msg.NewPath]; {
	case !ok:
		return nil, failed(connect.CodeNotFound, "there is no such file")
	case taken:
		return nil, failed(connect.CodeAlreadyExists, "it already exists")
	}
	delete(files, req.Msg.OldPath)
	files[req.Msg.NewPath] = content
	return connect.NewResponse(&hostv1.RenamePathResponse{}), nil
}

// ReadFileStream implements the client of the host agent.
func (h *Host) ReadFileStream(ctx context.Context, req *connect.Request[pb.ReadFileStreamRequest]) (*connect.ServerStreamForClient[pb.ReadFileStreamResponse], error) {
	return h.service().ReadFileStream(ctx, req)
}

// ReadFileStream implements the host agent's service. The path of a file determines its size.
func (a agent) ReadFileStream(_ context.Context, req *connect.Request[pb.ReadFileStreamRequest], to *connect.ServerStream[pb.ReadFileStreamResponse]) error {
	size, err := strconv.Atoi(strings.TrimPrefix(req.Msg.Path, "/"))
	if err != nil {
		return failed(connect.CodeNotFound, "there is no such file")
	}
	for part := make([]byte, 256<<10); size > 0; size -= len(part) {
		if err := to.Send(&pb.ReadFileStreamResponse{Chunk: part[:min(len(part), size)]}); err != nil {
			return err
		}
	}
	return nil
}
