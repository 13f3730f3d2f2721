package hostagent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path"
	"strings"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

const (
	maxContent = 16 << 20  // of a file in one message
	maxNames   = 64 << 20  // bytes that the entries of a list take
	maxEntries = 100_000   // of one list
	fileChunk  = 256 << 10 // of a file that is streamed
)

func checkPath(op, name string) error {
	switch {
	case name == "":
		return fault.New(fault.Invalid, op, "", "path is missing")
	case !strings.HasPrefix(name, "/"):
		return fault.New(fault.Invalid, op, fault.Printable(name[:min(len(name), 200)]), "the path is relative: it must be absolute").WithHint("begin the path with /")
	case len(name) > listing.MaxPath || strings.ContainsRune(name, 0):
		return fault.New(fault.Invalid, op, "", "the path is longer than %d bytes, or holds a NUL byte", listing.MaxPath)
	}
	return nil
}

// file connects to the sandbox whose path is meant.
func (a *Agent) file(ctx context.Context, op string, m interface {
	GetSandboxId() string
	GetPath() string
}) (Machine, func(), error) {
	if err := checkPath(op, m.GetPath()); err != nil {
		return nil, nil, err
	}
	to, _, end, err := a.connected(ctx, op, m.GetSandboxId())
	return to, end, err
}

// WriteFile creates or replaces a file.
func (a *Agent) WriteFile(ctx context.Context, req *connect.Request[pb.WriteFileRequest]) (*connect.Response[pb.WriteFileResponse], error) {
	m, end, err := a.file(ctx, "write file", req.Msg)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := m.WriteMachineFile(ctx, req.Msg.Path, bytes.NewReader(req.Msg.Content)); err != nil {
		return nil, err
	}
	return connect.NewResponse(&pb.WriteFileResponse{}), nil
}

// WriteFileStream does so with what comes in pieces. Without their end, as the client says it, the file stays as it was.
func (a *Agent) WriteFileStream(ctx context.Context, stream *connect.ClientStream[pb.WriteFileStreamRequest]) (*connect.Response[pb.WriteFileStreamResponse], error) {
	const op = "write file"
	if !stream.Receive() {
		return nil, errors.Join(fault.New(fault.Invalid, op, "", "the first message must have meta"), stream.Err())
	}
	meta := stream.Msg().GetMeta()
	if meta == nil {
		return nil, fault.New(fault.Invalid, op, "", "the first message must have meta")
	}
	m, end, err := a.file(ctx, op, meta)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := m.WriteMachineFile(ctx, meta.Path, &chunks{stream: stream}); err != nil {
		return nil, err
	}
	return connect.NewResponse(&pb.WriteFileStreamResponse{}), nil
}

// chunks reads the content that a stream brings.
type chunks struct {
	stream *connect.ClientStream[pb.WriteFileStreamRequest]
	left   []byte
	err    error
}

func (c *chunks) Read(b []byte) (int, error) {
	for len(c.left) == 0 && c.err == nil {
		c.left, c.err = c.next()
	}
	n := copy(b, c.left)
	c.left = c.left[n:]
	if n == 0 {
		return 0, c.err
	}
	return n, nil
}

// next gives the next piece, and io.EOF only where the client has said that there is none.
func (c *chunks) next() ([]byte, error) {
	if !c.stream.Receive() {
		if err := c.stream.Err(); err != nil {
			return nil, fault.Wrap(err, "receive what to write", "")
		}
		return nil, io.EOF
	}
	if c.stream.Msg().GetMeta() != nil {
		return nil, fault.New(fault.Invalid, "write file", "", "only the first message can have meta")
	}
	return c.stream.Msg().GetChunk(), nil
}

// ReadFile gives the content of a file.
func (a *Agent) ReadFile(ctx context.Context, req *connect.Request[pb.ReadFileRequest]) (*connect.Response[pb.ReadFileResponse], error) {
	m, end, err := a.file(ctx, "read file", req.Msg)
	if err != nil {
		return nil, err
	}
	defer end()
	left := maxContent
	content := collected{left: &left}
	err = m.ReadMachineFile(ctx, req.Msg.Path, &content)
	if errors.Is(err, errTooMuch) {
		return nil, fault.New(fault.Exhausted, "read file", req.Msg.Path, "it is longer than %d bytes", maxContent).WithHint("call ReadFileStream, which has no bound")
	}
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&pb.ReadFileResponse{Content: content.buffer.Bytes()}), nil
}

// ReadFileStream gives it in pieces.
func (a *Agent) ReadFileStream(ctx context.Context, req *connect.Request[pb.ReadFileStreamRequest], to *connect.ServerStream[pb.ReadFileStreamResponse]) error {
	m, end, err := a.file(ctx, "read file", req.Msg)
	if err != nil {
		return err
	}
	defer end()
	return m.ReadMachineFile(ctx, req.Msg.Path, writer(func(b []byte) error {
		for len(b) > 0 {
			n := min(len(b), fileChunk)
			if err := to.Send(&pb.ReadFileStreamResponse{Chunk: b[:n]}); err != nil {
				return err
			}
			b = b[n:]
		}
		return nil
	}))
}

// ListDir gives what is in a folder.
func (a *Agent) ListDir(ctx context.Context, req *connect.Request[pb.ListDirRequest]) (*connect.Response[pb.ListDirResponse], error) {
	const op = "list folder"
	m, end, err := a.file(ctx, op, req.Msg)
	if err != nil {
		return nil, err
	}
	defer end()
	top := path.Clean(req.Msg.Path)
	var found []listing.Entry
	size := 0 // what they take in the answer, about
	err = m.ListMachine(ctx, req.Msg.Path, int(min(max(req.Msg.Depth, 1), listing.MaxPath)), func(e listing.Entry) error {
		switch {
		case e.Path == "" && e.Kind != listing.Folder:
			return fault.New(fault.Precondition, op, top, "it is no folder").WithHint("call ReadFile")
		case e.Path == "":
			return nil
		case len(found) == maxEntries || size > maxNames:
			return fault.New(fault.Exhausted, op, top, "there are more than %d entries, or %d bytes of names", maxEntries, maxNames).WithHint("list with a lower depth, or a folder below it")
		}
		found = append(found, e)
		size += len(top) + len(e.Path) + len(e.Target) + 64
		return nil
	})
	if err != nil {
		return nil, err
	}
	answer := &pb.ListDirResponse{Entries: make([]*pb.FileEntry, 0, len(found))}
	who := namesIn(ctx, m)
	for _, e := range found {
		answer.Entries = append(answer.Entries, who.entry(path.Join(top, e.Path), e))
	}
	return connect.NewResponse(answer), nil
}

// MakeDir makes a folder.
func (a *Agent) MakeDir(ctx context.Context, req *connect.Request[pb.MakeDirRequest]) (*connect.Response[pb.MakeDirResponse], error) {
	m, end, err := a.file(ctx, "make folder", req.Msg)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := m.MakeMachineFolder(ctx, req.Msg.Path); err != nil {
		return nil, err
	}
	var made listing.Entry
	name := path.Clean(req.Msg.Path)
	if err := m.ListMachine(ctx, strings.TrimSuffix(name, "/")+"/.", 0, // the folder, if the name is a link's
		func(e listing.Entry) error {
			if e.Path == "" {
				made = e
			}
			return nil
		}); err != nil {
		return nil, err
	}
	return connect.NewResponse(&pb.MakeDirResponse{Entry: namesIn(ctx, m).entry(name, made)}), nil
}

// RemovePath removes what is at a path.
func (a *Agent) RemovePath(ctx context.Context, req *connect.Request[pb.RemovePathRequest]) (*connect.Response[pb.RemovePathResponse], error) {
	m, end, err := a.file(ctx, "remove", req.Msg)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := m.RemoveMachinePath(ctx, req.Msg.Path); err != nil {
		return nil, err
	}
	return connect.NewResponse(&pb.RemovePathResponse{}), nil
}
