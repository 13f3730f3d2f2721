package agent

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/sharedbuffer"
	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/content"
)

// filePath is the path of the calls that read, write and remove files. The file content is the HTTP
// body, without an envelope.
const filePath = "/file"

// serve returns a handler for a call with content. In a session without a successful Renew, the
// handler rejects the call.
func (s *Server) serve(do func(*content.Answer, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		content.Serve(w, encodeError, func(a *content.Answer) error {
			if !sessionOf(r.Context()).renewed.Load() {
				return errNotRenewed
			}
			return do(a, r)
		})
	}
}

// file handles calls to filePath.
func (s *Server) file(w *content.Answer, r *http.Request) error {
	root, err := s.env.Root()
	if err != nil {
		return err
	}
	switch r.Method {
	case http.MethodGet:
		return s.readContent(w, r, volume.CheckPath, func(name string) (*os.File, error) { return volume.OpenRegular(root, s.env.Path(name)) })
	case http.MethodPut:
		return s.writeContent(w, r, volume.CheckPath, func(spec volume.FileSpec) (*volume.Replacement, error) {
			spec.Path = s.env.Path(spec.Path)
			return volume.NewReplacement(root, spec)
		})
	case http.MethodDelete:
		return s.remove(root, r.URL.Query().Get("path"))
	default:
		return errMethod
	}
}

var errMethod = invalid("the method must be GET, or PUT or DELETE for a change")

// countsTrailer is the HTTP trailer with the counts of a call.
const countsTrailer = "Counts"

// encodeError returns the status for an error, and the value for [content.ErrorField]. The value is
// an encoded query, because a path can contain any byte.
func encodeError(err error) (status int, text string) {
	status = statusOf(err)
	text = err.Error()
	if e, ok := err.(*connect.Error); ok {
		text = e.Message() // without the code, because the status already expresses it
	}
	q := url.Values{"status": {strconv.Itoa(status)}, "text": {text}}
	if r := (*volume.OperationError)(nil); errors.As(err, &r) {
		q.Set("path", r.Path)
		if err == r {
			q.Set("text", r.Err.Error())
		}
	}
	return status, q.Encode()
}

// readContent sends the content of a regular file. The function check validates the path, and the
// function open opens the file.
func (s *Server) readContent(w *content.Answer, r *http.Request, check func(path string) error, open func(path string) (*os.File, error)) error {
	q := r.URL.Query()
	name := q.Get("path")
	part, err := content.RangeOf(q)
	if err := errors.Join(check(name), err); err != nil {
		return invalid(err.Error())
	}
	f, err := open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(part.Offset, io.SeekStart); err != nil {
		return err
	}
	var from io.Reader = nonblocking{f}
	if part.Limit > 0 {
		from = io.LimitReader(from, part.Limit)
	}
	if needsBuffer(f, part.Offset) && s.grant(w, q) {
		defer s.bufferInUse.Unlock()
		_, err = sharedbuffer.Send(s.buffer, from, flusher{w}, r.Body)
	} else {
		_, err = content.Copy(w, from)
	}
	if err != nil {
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the agent could not read it to its end: %w", err))
	}
	return nil
}

// writeContent replaces a file. The function check validates the path, and the function begin
// creates the replacement.
func (s *Server) writeContent(w *content.Answer, r *http.Request, check func(path string) error, begin func(volume.FileSpec) (*volume.Replacement, error)) error {
	file, err := content.FileOf(r.URL.Query())
	if err := errors.Join(err, check(file.Path)); err != nil {
		return invalid(err.Error())
	}
	if !namesFile(file.Path) {
		return invalid("path must name a file")
	}
	spec, limit := volume.FileSpec{Path: file.Path, MakeParents: file.Parents, Mode: file.Mode, Size: uint64(file.Size)}, file.Size
	if file.Size < 0 {
		spec.Size, limit = volume.UnknownSize, math.MaxInt64
	}
	f, err := begin(spec)
	if err != nil {
		return err
	}
	defer f.Discard()
	body, done, err := s.receive(w, r, limit)
	if err != nil {
		return err
	}
	defer done()
	if _, err = content.Copy(f, body); err == sharedbuffer.ErrBroken {
		err = volume.ErrLength
	}
	return f.Finish(r.Context(), err)
}

// receive returns the content of a call, at most limit bytes. The content is either the request
// body or in the shared buffer. In the second case, the body has records that locate the content.
// The caller must call the returned function done.
func (s *Server) receive(w *content.Answer, r *http.Request, limit int64) (body io.Reader, done func(), err error) {
	q := r.URL.Query()
	if s.grant(w, q) {
		from := sharedbuffer.NewReader(s.buffer, limit, r.Body, flusher{w})
		return from, func() {
			from.Free()
			s.bufferInUse.Unlock()
		}, nil
	}
	if q.Get("window") != "" {
		return nil, nil, errBufferInUse // the body has records instead of content
	}
	return r.Body, func() {}, nil
}

var errBufferInUse = errors.New("the shared buffer is in use")

// needsBuffer reports whether a file has enough bytes after offset to make the shared buffer
// faster.
func needsBuffer(f *os.File, offset int64) bool {
	info, err := f.Stat()
	return err == nil && info.Size()-sharedbuffer.Worth >= offset
}

// grant lets a call use the shared buffer if the call asks for it and the buffer is free. If grant
// returns true, it has sent the response header, and the caller must unlock bufferInUse.
func (s *Server) grant(w *content.Answer, q url.Values) bool {
	if q.Get("window") != "1" || s.buffer == nil || !s.bufferInUse.TryLock() {
		return false
	}
	w.Header().Set(sharedbuffer.Header, "1")
	w.Begin() // ignore its error, because the transfer then fails too
	return true
}

// flusher flushes the response after each write, so that records arrive immediately.
type flusher struct{ *content.Answer }

func (f flusher) Write(p []byte) (int, error) {
	n, err := f.Answer.Write(p)
	if err == nil {
		err = http.NewResponseController(f.Answer.ResponseWriter).Flush()
	}
	return n, err
}

// statusOf returns the HTTP status for an error.
func statusOf(err error) int {
	if e := (*connect.Error)(nil); !errors.As(err, &e) {
		err = pathError(err)
	}
	switch {
	case errors.Is(err, ErrNotReady), errors.Is(err, errNotRenewed):
		return http.StatusPreconditionFailed
	case errors.Is(err, errBufferInUse):
		return http.StatusLocked
	}
	switch connect.CodeOf(err) {
	case connect.CodeNotFound:
		return http.StatusNotFound
	case connect.CodePermissionDenied:
		return http.StatusForbidden
	case connect.CodeAlreadyExists:
		return http.StatusUnprocessableEntity
	case connect.CodeFailedPrecondition:
		return http.StatusConflict
	case connect.CodeInvalidArgument:
		return http.StatusBadRequest
	case connect.CodeUnavailable:
		return http.StatusServiceUnavailable
	case connect.CodeResourceExhausted:
		return http.StatusInsufficientStorage
	default:
		return http.StatusInternalServerError
	}
}

// namesFile reports whether the last element of a path can be the name of a file.
func namesFile(name string) bool {
	_, last := path.Split(name)
	return last != "" && last != "." && last != ".."
}

// nonblocking reads the available data of a file and does not wait for more. A file in /proc, such
// as kmsg, might have no data yet. nonblocking then returns io.EOF.
type nonblocking struct{ file *os.File }

func (p nonblocking) Read(b []byte) (n int, err error) {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Read(func(fd uintptr) bool {
		for n, err = unix.Read(int(fd), b); err == unix.EINTR; n, err = unix.Read(int(fd), b) {
		}
		return true
	})
	switch {
	case failed != nil:
		return 0, failed
	case err == unix.EAGAIN, err == nil && n <= 0 && len(b) > 0:
		return 0, io.EOF
	case err != nil:
		return 0, &os.PathError{Op: "read", Path: p.file.Name(), Err: err}
	}
	return n, nil
}
