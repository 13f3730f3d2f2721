package serve

import (
	"context"
	"errors"
	"io"
	"net/http"
	"unicode/utf8"

	"connectrpc.com/connect"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
	hostv1 "github.com/pyro-mcp/pyro/internal/gen/host/v1"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

// File describes a file of a sandbox.
type File struct {
	Name          string  `json:"name"`
	Path          string  `json:"path"`
	Type          string  `json:"type" enum:"file,directory,symlink,other"`
	Size          int64   `json:"size"`
	Mode          uint32  `json:"mode"`
	Permissions   string  `json:"permissions" example:"-rw-r--r--"`
	Owner         string  `json:"owner"`
	Group         string  `json:"group"`
	ModifiedAt    int64   `json:"modified_at" doc:"Seconds since 1970"`
	SymlinkTarget *string `json:"symlink_target,omitempty"`
}

func newFile(e *pb.FileEntry) File {
	return File{e.Name, e.Path, e.Type, e.Size, e.Mode, e.Permissions, e.Owner, e.Group, e.ModifiedAt, e.SymlinkTarget}
}

// Bounds of files, in bytes.
const (
	maxUpload    = 100 << 20
	uploadPart   = 256 << 10
	downloadPart = 64 << 10
)

// Folder is the content of a folder.
type Folder struct {
	Entries []File `json:"entries"`
}

// MadeFolder describes a folder that was created.
type MadeFolder struct {
	Entry File `json:"entry"`
}

// atPath has a path in its body.
type atPath struct {
	ByID
	Body struct {
		Path string `json:"path" minLength:"1" maxLength:"4096"`
	}
}

func (s *Server) bindFiles(base string) {
	files := "/v1/" + base + "/{id}/files"
	huma.Register(s.api, operation(http.MethodPost, files+"/list", base+"-files-list", "List a folder", store.RoleViewer),
		func(ctx context.Context, in *struct {
			ByID
			Body struct {
				Path  string `json:"path" minLength:"1" maxLength:"4096"`
				Depth uint32 `json:"depth,omitempty" default:"1" minimum:"1" maximum:"1000"`
			}
		}) (*body[Folder], error) {
			r, err := call(ctx, s, in.ID, hostClient.ListDir, &pb.ListDirRequest{SandboxId: in.ID, Path: in.Body.Path, Depth: in.Body.Depth})
			if err != nil {
				return nil, err
			}
			return &body[Folder]{Folder{itemsOf(r.Entries, newFile)}}, nil
		})
	huma.Register(s.api, operation(http.MethodPost, files+"/mkdir", base+"-files-mkdir", "Create a folder, with missing folders above it", store.RoleMember),
		func(ctx context.Context, in *atPath) (*body[MadeFolder], error) {
			r, err := change(ctx, s, control.ActMakeDir, in.ID, hostClient.MakeDir, &pb.MakeDirRequest{SandboxId: in.ID, Path: in.Body.Path})
			if err != nil {
				return nil, err
			}
			return &body[MadeFolder]{MadeFolder{newFile(r.Entry)}}, nil
		})
	huma.Register(s.api, operation(http.MethodPost, files+"/remove", base+"-files-remove", "Remove a file, or a folder with its content", store.RoleMember, status(http.StatusNoContent)),
		func(ctx context.Context, in *atPath) (*struct{}, error) {
			_, err := change(ctx, s, control.ActRemoveFile, in.ID, hostClient.RemovePath, &pb.RemovePathRequest{SandboxId: in.ID, Path: in.Body.Path})
			return nil, err
		})
	huma.Register(s.api, operation(http.MethodPost, files+"/rename", base+"-files-rename", "Rename or move a file, or a folder with its content, to a path that does not exist", store.RoleMember, status(http.StatusNoContent)),
		func(ctx context.Context, in *struct {
			ByID
			Body struct {
				OldPath string `json:"old_path" minLength:"1" maxLength:"4096"`
				NewPath string `json:"new_path" minLength:"1" maxLength:"4096"`
			}
		}) (*struct{}, error) {
			req := &hostv1.RenamePathRequest{SandboxId: in.ID, OldPath: in.Body.OldPath, NewPath: in.Body.NewPath}
			_, err := change(ctx, s, control.ActRenameFile, in.ID, hostClient.RenamePath, req)
			return nil, err
		})
	huma.Register(s.api, operation(http.MethodPost, files+"/read", base+"-files-read", "Read a file of any size", store.RoleViewer),
		func(ctx context.Context, in *atPath) (*huma.StreamResponse, error) { return s.readFile(ctx, in) })
	huma.Register(s.api, operation(http.MethodPost, files+"/write", base+"-files-write", "Write a file of at most 100 MiB", store.RoleMember, status(http.StatusNoContent), upload),
		func(ctx context.Context, in *struct {
			ByID
			RawBody huma.MultipartFormFiles[struct {
				Path string        `form:"path" required:"true" minLength:"1" maxLength:"4096"`
				File huma.FormFile `form:"file" required:"true"`
			}]
		}) (*struct{}, error) {
			form := in.RawBody.Data()
			return done(s.writeFile(ctx, in.ID, form.Path, form.File))
		})
}

func upload(o *huma.Operation) { o.MaxBodyBytes = maxUpload + maxBody }

// readFile streams a file from the host to the client. It waits for the first chunk before it sends
// the status, so that it can report a missing file as an error.
func (s *Server) readFile(ctx context.Context, in *atPath) (*huma.StreamResponse, error) {
	c, err := s.client(ctx, in.ID)
	if err != nil {
		return nil, newError(err)
	}
	stream, err := c.ReadFileStream(ctx, connect.NewRequest(&pb.ReadFileStreamRequest{SandboxId: in.ID, Path: in.Body.Path}))
	if err != nil {
		return nil, newError(control.FromHost(err))
	}
	more := stream.Receive()
	if err := stream.Err(); err != nil {
		stream.Close()
		return nil, newError(control.FromHost(err))
	}
	return &huma.StreamResponse{Body: func(out huma.Context) {
		defer stream.Close()
		_, w := humago.Unwrap(out)
		out.SetHeader("Content-Type", "application/octet-stream")
		out.SetHeader("Content-Disposition", "attachment")
		for ; more; more = stream.Receive() {
			if _, err := w.Write(stream.Msg().Chunk); err != nil {
				return
			}
		}
		if err := stream.Err(); err != nil {
			s.log.WarnContext(ctx, "a file was not read to its end", "sandbox", in.ID, "error", err)
			panic(http.ErrAbortHandler) // otherwise the client would treat it as the whole file
		}
	}}, nil
}

// writeFile sends a file to the host. The host replaces the file only after it has received the
// whole content.
func (s *Server) writeFile(ctx context.Context, id, path string, from io.Reader) (err error) {
	defer func() { s.control.Record(ctx, identity(ctx).Actor, control.ActWrite, id, err) }()
	c, err := s.client(ctx, id)
	if err != nil {
		return err
	}
	if !utf8.ValidString(path) {
		return fault.Newf(fault.Invalid, "the path %s is not valid UTF-8", fault.Printable(path))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := c.WriteFileStream(ctx)
	err = stream.Send(&pb.WriteFileStreamRequest{Content: &pb.WriteFileStreamRequest_Meta{Meta: &pb.WriteFileStreamMeta{SandboxId: id, Path: path}}})
	part := make([]byte, uploadPart)
	for err == nil {
		n, failed := io.ReadFull(from, part)
		if failed != nil && failed != io.EOF && failed != io.ErrUnexpectedEOF {
			return failed // cancel: otherwise the host would treat it as the whole file
		}
		if n > 0 {
			err = stream.Send(&pb.WriteFileStreamRequest{Content: &pb.WriteFileStreamRequest_Chunk{Chunk: part[:n]}})
		}
		if failed != nil {
			break
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return control.FromHost(err) // cancel: the message was not sent
	}
	_, err = stream.CloseAndReceive() // if Send failed with io.EOF, this returns the reason
	return control.FromHost(err)
}
