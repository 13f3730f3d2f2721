package agent

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// openIn opens an absolute path below root. Links and ".." are followed as the processes would see them, and never lead out.
func openIn(root int, name string, flags int, mode uint32) (*os.File, error) {
	fd, err := unix.Openat2(root, name, &unix.OpenHow{
		Flags: uint64(flags | unix.O_CLOEXEC), Mode: uint64(mode), Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func checkPath(name string) error {
	if name == "" || name[0] != '/' || len(name) > maxPath || strings.IndexByte(name, 0) >= 0 {
		return errors.New("path must be absolute and at most 4096 bytes")
	}
	return nil
}

// pathError gives the RPC's error for one of the kernel's.
func pathError(err error) error {
	code := connect.CodeInternal
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		code = connect.CodeNotFound
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS):
		code = connect.CodePermissionDenied
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		code = connect.CodeResourceExhausted
	case errors.Is(err, unix.EINVAL): // an offset beyond what a file can have
		code = connect.CodeInvalidArgument
	case errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENAMETOOLONG), errors.Is(err, errNotRegular):
		code = connect.CodeFailedPrecondition
	}
	return connect.NewError(code, err)
}

var errNotRegular = errors.New("not a regular file")

// Stat describes one path.
func (s *Server) Stat(_ context.Context, req *connect.Request[agentv1.StatRequest]) (*connect.Response[agentv1.StatResponse], error) {
	if err := checkPath(req.Msg.Path); err != nil {
		return nil, invalid(err.Error())
	}
	root, err := s.place.Root()
	if err != nil {
		return nil, pathError(err)
	}
	f, err := openIn(root, req.Msg.Path, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, pathError(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, pathError(err)
	}
	r := &agentv1.StatResponse{
		Size: uint64(st.Size), Mode: st.Mode & 0o7777, Uid: st.Uid, Gid: st.Gid, MtimeUnixNanos: st.Mtim.Nano(), Type: agentv1.FileType_FILE_TYPE_OTHER,
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		r.Type = agentv1.FileType_FILE_TYPE_REGULAR
	case unix.S_IFDIR:
		r.Type = agentv1.FileType_FILE_TYPE_DIRECTORY
	case unix.S_IFLNK:
		r.Type = agentv1.FileType_FILE_TYPE_SYMLINK
		target := make([]byte, maxPath)
		n, err := unix.Readlinkat(int(f.Fd()), "", target)
		if err != nil {
			return nil, pathError(err)
		}
		r.LinkTarget = string(target[:n])
	}
	return connect.NewResponse(r), nil
}

// openRegular opens a regular file for reading. It never waits for a pipe's other end.
func openRegular(root int, name string) (*os.File, error) {
	f, err := openIn(root, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "read", Path: name, Err: errNotRegular}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openAt opens a regular file of the place for reading from an offset on, at most limit bytes of it where that is not 0.
func (s *Server) openAt(name string, offset, limit uint64) (io.ReadCloser, error) {
	root, err := s.place.Root()
	if err != nil {
		return nil, err
	}
	f, err := openRegular(root, name)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(int64(offset), io.SeekStart); err != nil {
		f.Close()
		return nil, err
	}
	if limit == 0 {
		return f, nil
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(f, int64(min(limit, math.MaxInt64))), f}, nil
}

// filePath is where whole files are read as plain HTTP bodies: GET filePath?path=P&offset=N&limit=N. It is ReadFile without the cost of a message
// around each chunk, which on an emulated processor is half of the throughput.
const filePath = "/file"

func (s *Server) readFile(w http.ResponseWriter, r *http.Request) {
	if !sessionOf(r.Context()).renewed.Load() {
		http.Error(w, errNotRenewed.Error(), http.StatusPreconditionFailed)
		return
	}
	q := r.URL.Query()
	offset, err1 := strconv.ParseUint(q.Get("offset"), 10, 63)
	limit, err2 := strconv.ParseUint(q.Get("limit"), 10, 63)
	if err := errors.Join(checkPath(q.Get("path")), err1, err2); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f, err := s.openAt(q.Get("path"), offset, limit)
	if err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	defer f.Close()
	if _, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{f}, make([]byte, maxChunk)); err != nil {
		panic(http.ErrAbortHandler) // the stream is reset: what arrived is not the whole
	}
}

// statusOf gives the HTTP status for one of the kernel's errors.
func statusOf(err error) int {
	switch connect.CodeOf(pathError(err)) {
	case connect.CodeNotFound:
		return http.StatusNotFound
	case connect.CodePermissionDenied:
		return http.StatusForbidden
	case connect.CodeFailedPrecondition:
		return http.StatusConflict
	case connect.CodeInvalidArgument:
		return http.StatusBadRequest
	default:
		return http.StatusInternalServerError
	}
}

// ReadFile streams a regular file.
func (s *Server) ReadFile(ctx context.Context, req *connect.Request[agentv1.ReadFileRequest], stream *connect.ServerStream[agentv1.ReadFileResponse]) error {
	if err := checkPath(req.Msg.Path); err != nil {
		return invalid(err.Error())
	}
	f, err := s.openAt(req.Msg.Path, req.Msg.Offset, req.Msg.Limit)
	if err != nil {
		return pathError(err)
	}
	defer f.Close()
	buffer := make([]byte, maxChunk)
	for {
		n, err := io.ReadFull(f, buffer)
		if n > 0 {
			if err := stream.Send(&agentv1.ReadFileResponse{Data: buffer[:n]}); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return nil
		case err != nil:
			return pathError(err)
		}
	}
}

// namesFile tells whether a path ends in a name.
func namesFile(name string) bool {
	_, last := path.Split(name)
	return last != "" && last != "." && last != ".."
}

// WriteFile replaces a file.
func (s *Server) WriteFile(ctx context.Context, stream *connect.ClientStream[agentv1.WriteFileRequest]) (*connect.Response[agentv1.WriteFileResponse], error) {
	if !stream.Receive() {
		return nil, errors.Join(stream.Err(), invalid("the head is missing"))
	}
	head := stream.Msg().Head
	if head == nil {
		return nil, invalid("the head is missing")
	}
	if err := checkPath(head.Path); err != nil || !namesFile(head.Path) || head.Mode&^0o7777 != 0 {
		return nil, invalid("path must be absolute and name a file, mode at most 07777")
	}
	root, err := s.place.Root()
	if err != nil {
		return nil, pathError(err)
	}
	w, err := newReplacement(root, head)
	if err != nil {
		return nil, pathError(err)
	}
	defer w.discard()
	for more := true; more; more = stream.Receive() {
		data := stream.Msg().Data
		if w.written+uint64(len(data)) > head.Size {
			return nil, invalid("more data than the head said")
		}
		if err := w.write(data); err != nil {
			return nil, pathError(err)
		}
	}
	if err := stream.Err(); err != nil {
		return nil, err
	}
	if w.written != head.Size {
		return nil, invalid("less data than the head said")
	}
	if err := w.commit(); err != nil {
		return nil, pathError(err)
	}
	return connect.NewResponse(&agentv1.WriteFileResponse{Written: w.written}), nil
}
