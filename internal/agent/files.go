package agent

import (
	"context"
	"errors"
	"io"
	"os"
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
	case errors.As(err, new(conflict)), errors.Is(err, ErrNotReady):
		code = connect.CodeFailedPrecondition
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		code = connect.CodeNotFound
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS), errors.Is(err, errLeadsOut):
		code = connect.CodePermissionDenied
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		code = connect.CodeResourceExhausted
	case errors.Is(err, unix.EINVAL): // an offset beyond what a file can have
		code = connect.CodeInvalidArgument
	case errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENAMETOOLONG), errors.Is(err, errNotRegular), errors.Is(err, errNoFolder), errors.Is(err, unix.EBUSY), errors.Is(err, unix.ENOTEMPTY):
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
	f, err := openIn(root, s.place.Path(req.Msg.Path), unix.O_PATH|unix.O_NOFOLLOW, 0)
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
	return regularAt(func(flags int) (*os.File, error) { return openIn(root, name, flags, 0) })
}

// regularAt does so by a function that opens the path. Kernels differ in why a pipe, socket or device
// can't be opened: if one can't be, its kind decides.
func regularAt(open func(flags int) (*os.File, error)) (*os.File, error) {
	f, err := open(unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY)
	if err == nil {
		return onlyRegular(f)
	}
	if there, failed := open(unix.O_PATH); failed == nil {
		defer there.Close()
		if kind := isRegular(there); kind != nil {
			return nil, kind
		}
	}
	return nil, err
}

// onlyRegular closes and refuses what is no regular file.
func onlyRegular(f *os.File) (*os.File, error) {
	if err := isRegular(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func isRegular(f *os.File) error {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "read", Path: f.Name(), Err: errNotRegular}
	}
	return err
}

// prompt reads a file without waiting for more than there is: a file of /proc, such as kmsg, may have
// nothing yet, and ends then.
type prompt struct{ file *os.File }

func (p prompt) Read(b []byte) (n int, err error) {
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
