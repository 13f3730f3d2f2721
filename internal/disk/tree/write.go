package tree

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"path"
)

// Write makes each of dsts, where nothing may be yet, a folder with what the tar stream holds: files, folders, symbolic and hard links, each after the folder
// that it is in. Their files share blocks where the file system can do that. All belongs to the caller, whatever the stream says; modes, set-id bits among them, and times of modification are kept. The folder
// itself gets mode 0755.
//
// The stream is one that pyro made: how much it may write is not bounded. It is read to its end. On any error nothing of them is left. Nothing is
// flushed: see Flush.
func Write(ctx context.Context, stream io.Reader, dsts ...string) (Stats, error) {
	const op = "write folder"
	for i, dst := range dsts {
		if err := os.Mkdir(dst, 0o700); err != nil {
			return Stats{}, abandon(ctx, named(err, op, dst), dsts[:i]...)
		}
	}
	stats, err := write(ctx, stream, dsts)
	if err != nil {
		return Stats{}, abandon(ctx, named(err, op, dsts[0]), dsts...)
	}
	return stats, nil
}

// abandon removes what was made of folders before err came.
func abandon(ctx context.Context, err error, folders ...string) error {
	for _, f := range folders {
		if left := Remove(context.WithoutCancel(ctx), f); left != nil {
			err = errors.Join(err, left)
		}
	}
	return err
}

func write(ctx context.Context, stream io.Reader, dsts []string) (Stats, error) {
	var tops []*os.File
	for _, dst := range dsts {
		fd, err := openTop(dst)
		if err != nil {
			return Stats{}, err
		}
		top := os.NewFile(uintptr(fd), dst)
		defer top.Close()
		// What is above it may hand down a group and a set-id bit.
		if err := errors.Join(top.Chown(os.Geteuid(), os.Getegid()), top.Chmod(0o700)); err != nil {
			return Stats{}, err
		}
		tops = append(tops, top)
	}
	w, err := NewWriter(tops...)
	if err != nil {
		return Stats{}, err
	}
	defer w.Close()
	for archive := NewReader(ctx, stream, NoLimit); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Stats{}, err
		}
		if header.Name = path.Clean(header.Name); header.Name == "." && header.Typeflag == tar.TypeDir {
			continue
		}
		if header.Typeflag == tar.TypeLink {
			header.Linkname = path.Clean(header.Linkname)
		}
		if err := w.Add(header, archive); err != nil {
			return Stats{}, err
		}
	}
	if err := w.Finish(); err != nil {
		return Stats{}, err
	}
	for _, top := range tops {
		if err := top.Chmod(0o755); err != nil {
			return Stats{}, err
		}
	}
	return w.Stats, nil
}
