package agent

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// pathError returns an RPC error whose code fits a file system error.
func pathError(err error) error {
	code := connect.CodeInternal
	switch {
	case errors.As(err, new(volume.Conflict)), errors.Is(err, ErrNotReady):
		code = connect.CodeFailedPrecondition
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		code = connect.CodeNotFound
	case errors.Is(err, volume.ErrExists):
		code = connect.CodeAlreadyExists
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS), errors.Is(err, volume.ErrLeadsOut), errors.Is(err, ErrHostPath):
		code = connect.CodePermissionDenied
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		code = connect.CodeResourceExhausted
	case errors.Is(err, unix.EINVAL), errors.As(err, new(volume.Invalid)): // EINVAL: the offset is too large
		code = connect.CodeInvalidArgument
	case errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENAMETOOLONG), errors.Is(err, volume.ErrNotRegular), errors.Is(err, volume.ErrNoFolder), errors.Is(err, unix.EBUSY), errors.Is(err, unix.ENOTEMPTY):
		code = connect.CodeFailedPrecondition
	}
	return connect.NewError(code, err)
}

// Stat describes the entry at a path. It does not follow a symbolic link at the end of the path.
func (s *Server) Stat(_ context.Context, req *connect.Request[agentv1.StatRequest]) (*connect.Response[agentv1.StatResponse], error) {
	if err := volume.CheckPath(req.Msg.Path); err != nil {
		return nil, invalid(err.Error())
	}
	root, err := s.env.Root()
	if err != nil {
		return nil, pathError(err)
	}
	f, err := volume.OpenIn(root, s.env.Path(req.Msg.Path), unix.O_PATH|unix.O_NOFOLLOW, 0)
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
