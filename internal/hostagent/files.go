package hostagent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"path"
	"strings"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/fault"
	hostv1 "github.com/pyro-mcp/pyro/internal/gen/host/v1"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/program"
)

const (
	maxContent = 16 << 20  // bytes of file content in one message.
	maxNames   = 64 << 20  // estimated bytes of a ListDir response.
	maxEntries = 100_000   // entries in a ListDir response.
	fileChunk  = 256 << 10 // bytes of file content in one stream message.
)

// checkPath unescapes a path of a request in place, and checks it.
func checkPath(op string, given *string) (err error) {
	if *given, err = listing.Unescape(*given); err != nil {
		return fault.New(fault.Invalid, op, "", "%w", err)
	}
	name := *given
	switch {
	case name == "":
		return fault.New(fault.Invalid, op, "", "path is missing")
	case !strings.HasPrefix(name, "/"):
		return fault.New(fault.Invalid, op, fault.Printable(name[:min(len(name), 200)]), "the path is relative: it must be absolute").WithHint("begin the path with /")
	case len(name) > listing.MaxPath || strings.ContainsRune(name, 0):
		return fault.New(fault.Invalid, op, "", "the path has more than %d bytes or a NUL byte", listing.MaxPath)
	}
	return nil
}

// file connects to the sandbox of a request and checks the path as checkPath does. The caller must
// call the returned function at the end.
func (a *Agent) file(ctx context.Context, op, sandbox string, path *string) (Machine, func(), error) {
	if err := checkPath(op, path); err != nil {
		return nil, nil, err
	}
	to, _, end, err := a.connected(ctx, op, sandbox)
	return to, end, err
}

// WriteFile creates or replaces a file.
func (a *Agent) WriteFile(ctx context.Context, req *connect.Request[pb.WriteFileRequest]) (*connect.Response[pb.WriteFileResponse], error) {
	m, end, err := a.file(ctx, "write file", req.Msg.SandboxId, &req.Msg.Path)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := m.WriteMachineFile(ctx, req.Msg.Path, bytes.NewReader(req.Msg.Content)); err != nil {
		return nil, err
	}
	return connect.NewResponse(&pb.WriteFileResponse{}), nil
}

// WriteFileStream creates or replaces a file with streamed content. If the stream breaks before the
// client closes it, the file does not change.
func (a *Agent) WriteFileStream(ctx context.Context, stream *connect.ClientStream[pb.WriteFileStreamRequest]) (*connect.Response[pb.WriteFileStreamResponse], error) {
	const op = "write file"
	if !stream.Receive() {
		return nil, errors.Join(fault.New(fault.Invalid, op, "", "the first message must have meta"), stream.Err())
	}
	meta := stream.Msg().GetMeta()
	if meta == nil {
		return nil, fault.New(fault.Invalid, op, "", "the first message must have meta")
	}
	m, end, err := a.file(ctx, op, meta.SandboxId, &meta.Path)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := m.WriteMachineFile(ctx, meta.Path, &chunks{stream: stream}); err != nil {
		return nil, err
	}
	return connect.NewResponse(&pb.WriteFileStreamResponse{}), nil
}

// chunks is an io.Reader that returns the chunks of a stream.
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

// next returns the next chunk. It returns io.EOF only if the client has closed the stream.
func (c *chunks) next() ([]byte, error) {
	if !c.stream.Receive() {
		if err := c.stream.Err(); err != nil {
			return nil, fault.Wrap(err, "receive file content", "")
		}
		return nil, io.EOF
	}
	if c.stream.Msg().GetMeta() != nil {
		return nil, fault.New(fault.Invalid, "write file", "", "only the first message can have meta")
	}
	return c.stream.Msg().GetChunk(), nil
}

// ReadFile returns the content of a file. It fails if the file has more than maxContent bytes.
func (a *Agent) ReadFile(ctx context.Context, req *connect.Request[pb.ReadFileRequest]) (*connect.Response[pb.ReadFileResponse], error) {
	m, end, err := a.file(ctx, "read file", req.Msg.SandboxId, &req.Msg.Path)
	if err != nil {
		return nil, err
	}
	defer end()
	content := program.Bounded{Budget: program.NewBudget(maxContent)}
	err = m.ReadMachineFile(ctx, req.Msg.Path, &content)
	if errors.Is(err, program.ErrFull) {
		return nil, fault.New(fault.Exhausted, "read file", listing.Escape(req.Msg.Path), "it is longer than %d bytes", maxContent).WithHint("call ReadFileStream, which has no limit")
	}
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&pb.ReadFileResponse{Content: content.Bytes()}), nil
}

// ReadFileStream streams the content of a file.
func (a *Agent) ReadFileStream(ctx context.Context, req *connect.Request[pb.ReadFileStreamRequest], to *connect.ServerStream[pb.ReadFileStreamResponse]) error {
	m, end, err := a.file(ctx, "read file", req.Msg.SandboxId, &req.Msg.Path)
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

// ListDir lists a folder. It fails if there are more than maxEntries entries.
func (a *Agent) ListDir(ctx context.Context, req *connect.Request[pb.ListDirRequest]) (*connect.Response[pb.ListDirResponse], error) {
	const op = "list folder"
	m, end, err := a.file(ctx, op, req.Msg.SandboxId, &req.Msg.Path)
	if err != nil {
		return nil, err
	}
	defer end()
	top := path.Clean(req.Msg.Path)
	var found []listing.Entry
	size := 0 // estimated size of the response in bytes
	err = m.ListMachine(ctx, req.Msg.Path, int(min(max(req.Msg.Depth, 1), listing.MaxPath)), func(e listing.Entry) error {
		switch {
		case e.Path == "" && e.Kind != listing.Folder:
			return fault.New(fault.Precondition, op, listing.Escape(top), "it is not a folder").WithHint("call ReadFile")
		case e.Path == "":
			return nil
		case len(found) == maxEntries || size > maxNames:
			return fault.New(fault.Exhausted, op, listing.Escape(top), "there are more than %d entries, or %d bytes of names", maxEntries, maxNames).WithHint("list with a smaller depth, or list a subfolder")
		}
		found = append(found, e)
		size += len(top) + len(e.Path) + len(e.Target) + 64
		return nil
	})
	if err != nil {
		return nil, err
	}
	answer := &pb.ListDirResponse{Entries: make([]*pb.FileEntry, 0, len(found))}
	names := readOwners(ctx, m)
	for _, e := range found {
		answer.Entries = append(answer.Entries, names.entry(path.Join(top, e.Path), e))
	}
	return connect.NewResponse(answer), nil
}

// MakeDir creates a folder and its missing parents.
func (a *Agent) MakeDir(ctx context.Context, req *connect.Request[pb.MakeDirRequest]) (*connect.Response[pb.MakeDirResponse], error) {
	m, end, err := a.file(ctx, "make folder", req.Msg.SandboxId, &req.Msg.Path)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := m.MakeMachineFolder(ctx, req.Msg.Path); err != nil {
		return nil, err
	}
	var made listing.Entry
	name := path.Clean(req.Msg.Path)
	if err := m.ListMachine(ctx, strings.TrimSuffix(name, "/")+"/.", 0, // if the path is a symbolic link, "/." follows the link
		func(e listing.Entry) error {
			if e.Path == "" {
				made = e
			}
			return nil
		}); err != nil {
		return nil, err
	}
	return connect.NewResponse(&pb.MakeDirResponse{Entry: readOwners(ctx, m).entry(name, made)}), nil
}

// RemovePath removes a file, or a folder with all its contents.
func (a *Agent) RemovePath(ctx context.Context, req *connect.Request[pb.RemovePathRequest]) (*connect.Response[pb.RemovePathResponse], error) {
	m, end, err := a.file(ctx, "remove", req.Msg.SandboxId, &req.Msg.Path)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := m.RemoveMachinePath(ctx, req.Msg.Path); err != nil {
		return nil, err
	}
	return connect.NewResponse(&pb.RemovePathResponse{}), nil
}

// RenamePath moves a file, or a folder with all its contents, to a path that does not exist.
func (h hostService) RenamePath(ctx context.Context, req *connect.Request[hostv1.RenamePathRequest]) (*connect.Response[hostv1.RenamePathResponse], error) {
	const op = "rename"
	if err := cmp.Or(checkPath(op, &req.Msg.OldPath), checkPath(op, &req.Msg.NewPath)); err != nil {
		return nil, err
	}
	m, _, end, err := h.agent.connected(ctx, op, req.Msg.SandboxId)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := m.RenameMachinePath(ctx, req.Msg.OldPath, req.Msg.NewPath); err != nil {
		return nil, err
	}
	return connect.NewResponse(&hostv1.RenamePathResponse{}), nil
}
