package serve

import (
	"bufio"
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
)

const maxPath = 4096

// streamWrite ends the paths of requests whose body can have any size.
const streamWrite = "/files/stream/write"

// uploaded is the request of a client that sends a file of any size.
type uploaded struct {
	ByID
	kind string
	body io.Reader
}

// Resolve implements huma.Resolver.
func (u *uploaded) Resolve(ctx huma.Context) []error {
	u.kind, u.body = ctx.Header("Content-Type"), ctx.BodyReader()
	return nil
}

func (s *Server) bindFileStreams(base string) {
	files := "/v1/" + base + "/{id}/files"
	huma.Register(s.api, operation(http.MethodPost, files+"/stream/read", base+"-files-stream-read", "Read a file of any size", store.RoleViewer),
		func(ctx context.Context, in *atPath) (*huma.StreamResponse, error) { return s.readFile(ctx, in) })
	write := "/v1/" + base + "/{id}" + streamWrite
	huma.Register(s.api, operation(http.MethodPost, write, base+"-files-stream-write", "Write a file of any size", store.RoleMember, status(http.StatusNoContent)),
		func(ctx context.Context, in *uploaded) (*struct{}, error) { return done(s.streamFile(ctx, in)) })
	// If huma knew of the body, it would read it into memory.
	s.api.OpenAPI().Paths[write].Post.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"multipart/form-data": {Schema: &huma.Schema{
		Type: huma.TypeObject, Required: []string{"path", "file"}, Description: "path must come before file.",
		Properties: map[string]*huma.Schema{"path": {Type: huma.TypeString}, "file": {Type: huma.TypeString, Format: "binary"}},
	}}}}
}

// streamFile forwards a file to the host while it arrives. The host replaces the file only after
// the end of the form.
func (s *Server) streamFile(ctx context.Context, in *uploaded) error {
	if _, err := s.client(ctx, in.ID); err != nil {
		return err
	}
	kind, parameters, err := mime.ParseMediaType(in.kind)
	if err != nil || kind != "multipart/form-data" || parameters["boundary"] == "" {
		return fault.Newf(fault.Invalid, "the body must be a form: multipart/form-data")
	}
	form := multipart.NewReader(bufio.NewReaderSize(in.body, uploadPart), parameters["boundary"])
	part, err := form.NextRawPart()
	if err == nil && part.FormName() == "file" {
		return fault.Newf(fault.Invalid, "the field path must come before the field file")
	}
	if err != nil || part.FormName() != "path" {
		return badForm(err, "the field path is missing")
	}
	path, err := io.ReadAll(io.LimitReader(part, maxPath+1))
	if err != nil || len(path) == 0 || len(path) > maxPath {
		return badForm(err, "the field path must have 1 to 4096 bytes")
	}
	part, err = form.NextRawPart()
	if err != nil || part.FormName() != "file" {
		return badForm(err, "the field file must follow the field path")
	}
	return s.writeFile(ctx, in.ID, string(path), &lastPart{form, part})
}

// badForm returns the error for an invalid form. err is the error from reading the form, or nil.
func badForm(err error, otherwise string) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fault.Newf(fault.Invalid, "no data arrived for %v", quiet)
	case err != nil && !errors.Is(err, io.EOF):
		return fault.Newf(fault.Invalid, "read the form: %w", err)
	}
	return fault.Newf(fault.Invalid, "%s", otherwise)
}

// lastPart reads the last part of a form. It returns io.EOF only at the end of the form. So if the
// connection breaks, the host does not take the part for a complete file.
type lastPart struct {
	form *multipart.Reader
	part *multipart.Part
}

func (l *lastPart) Read(b []byte) (int, error) {
	n, err := l.part.Read(b)
	if err != io.EOF {
		if err != nil {
			err = badForm(err, "")
		}
		return n, err
	}
	if _, err := l.form.NextRawPart(); err != io.EOF {
		return n, badForm(err, "the field file must be the last one")
	}
	return n, io.EOF
}
