package archive

import (
	"archive/tar"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// WritePath writes a file, a directory with its content, or a symbolic link of the host as a tar
// stream. It follows a link at the end of the path only if a slash follows. The entry gets the name
// in the parameter as. A directory ignores this name: its own entry is ".", and the names of its
// content do not begin with "./". Otherwise the stream and the errors are as for [Source.WriteTar].
//
// NotFound: nothing is at the path. Unsupported: it is a device, a FIFO or a socket.
func WritePath(ctx context.Context, w io.Writer, path, as string, policy Policy) (Summary, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return Summary{}, fault.Wrap(cause(err), opOpen, path)
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		return writeFolder(ctx, w, path, policy)
	case 0:
		return writeFile(ctx, w, path, as, policy)
	case fs.ModeSymlink:
		return writeLink(ctx, w, path, as, policy)
	}
	return Summary{}, fault.New(fault.Unsupported, opOpen, path, "it is a device, a FIFO or a socket")
}

func writeFolder(ctx context.Context, w io.Writer, path string, policy Policy) (Summary, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return Summary{}, fault.Wrap(cause(err), opOpen, path)
	}
	source := &folder{file}
	defer source.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return Summary{}, fault.Wrap(err, opRead, path)
	}
	top := newWalk(ctx, w, policy, func(string) string { return path })
	if err := top.entry(tar.TypeDir, ".", "", &st); err != nil {
		return Summary{}, err
	}
	if err := top.out.out.Flush(); err != nil { // without the end of the archive
		return Summary{}, err
	}
	return source.WriteTar(ctx, w, policy)
}

func writeFile(ctx context.Context, w io.Writer, path, as string, policy Policy) (Summary, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return Summary{}, fault.Wrap(cause(err), opOpen, path)
	}
	defer file.Close()
	r := newWalk(ctx, w, policy, func(string) string { return path })
	var st unix.Stat_t
	err = unix.Fstat(int(file.Fd()), &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errChanged
	}
	if err == nil {
		err = r.opened(int(file.Fd()), as, &st)
	}
	if err == nil {
		err = r.out.close()
	}
	if err != nil {
		return Summary{}, at(err, path)
	}
	return r.summary, nil
}

func writeLink(ctx context.Context, w io.Writer, path, as string, policy Policy) (Summary, error) {
	r := newWalk(ctx, w, policy, func(string) string { return path })
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	target := ""
	if err == nil {
		target, err = os.Readlink(path)
	}
	if err == nil {
		err = r.entry(tar.TypeSymlink, as, target, &st)
	}
	if err == nil {
		err = r.out.close()
	}
	if err != nil {
		return Summary{}, at(cause(err), filepath.Clean(path))
	}
	return Summary{Symlinks: 1}, nil
}
