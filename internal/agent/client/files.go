package client

import (
	"context"
	"io/fs"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// File describes an entry in the file system of a machine.
type File struct {
	Mode       fs.FileMode // type and permission bits
	Size       int64
	ModTime    time.Time
	UID, GID   int
	LinkTarget string // the target of a symbolic link, otherwise empty
}

// Stat describes the entry at a path. It does not follow a symbolic link at the end of the path.
func (c *Client) Stat(ctx context.Context, path string) (File, error) {
	var f File
	err := c.do(ctx, func(ctx context.Context, s *session) error {
		r, err := s.rpc.Stat(ctx, connect.NewRequest(&agentv1.StatRequest{Path: path}))
		if err != nil {
			return err
		}
		m := r.Msg
		f = File{
			Mode: fs.FileMode(m.Mode & 0o777), Size: int64(m.Size), ModTime: time.Unix(0, m.MtimeUnixNanos),
			UID: int(m.Uid), GID: int(m.Gid), LinkTarget: clip(m.LinkTarget, 4096),
		}
		for bit, mode := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
			if m.Mode&bit != 0 {
				f.Mode |= mode
			}
		}
		switch m.Type {
		case agentv1.FileType_FILE_TYPE_REGULAR:
		case agentv1.FileType_FILE_TYPE_DIRECTORY:
			f.Mode |= fs.ModeDir
		case agentv1.FileType_FILE_TYPE_SYMLINK:
			f.Mode |= fs.ModeSymlink
		default:
			f.Mode |= fs.ModeIrregular
		}
		return nil
	})
	return f, fault.Wrap(err, "stat", path)
}
