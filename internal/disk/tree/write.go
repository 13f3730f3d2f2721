package tree

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"path"
)

// Write creates each of the folders dsts, which must not exist, with the entries of a tar stream.
// The stream can contain files, folders, symbolic links and hard links. A folder must precede its
// entries.
//
// Write preserves modification times and modes with their set-id bits. It ignores owners, so the
// caller owns all files. The folders dsts get mode 0755. The copies of a file in several folders
// share blocks if the file system supports it.
//
// Write does not limit the size, so the stream must come from pyro. Write reads the stream to its
// end. On any error it removes dsts. It does not flush the files to disk. Use Flush for that.
func Write(ctx context.Context, stream io.Reader, dsts ...string) (Stats, error) {
	return writeFolders(ctx, stream, false, dsts)
}

// WriteConstant is like Write for a folder that nothing will change. Its files get the attribute
// xattr.Shared if the file system supports it, except files with several names.
func WriteConstant(ctx context.Context, stream io.Reader, dst string) (Stats, error) {
	return writeFolders(ctx, stream, true, []string{dst})
}

func writeFolders(ctx context.Context, stream io.Reader, mark bool, dsts []string) (Stats, error) {
	const op = "write folder"
	for i, dst := range dsts {
		if err := os.Mkdir(dst, 0o700); err != nil {
			return Stats{}, discard(ctx, withPath(err, op, dst), dsts[:i]...)
		}
	}
	stats, err := write(ctx, stream, mark, dsts)
	if err != nil {
		return Stats{}, discard(ctx, withPath(err, op, dsts[0]), dsts...)
	}
	return stats, nil
}

// discard removes incomplete folders, and joins errors from the removal to err.
func discard(ctx context.Context, err error, folders ...string) error {
	for _, f := range folders {
		if failed := Remove(context.WithoutCancel(ctx), f); failed != nil {
			err = errors.Join(err, failed)
		}
	}
	return err
}

func write(ctx context.Context, stream io.Reader, mark bool, dsts []string) (Stats, error) {
	var tops []*os.File
	for _, dst := range dsts {
		fd, err := openTop(dst)
		if err != nil {
			return Stats{}, err
		}
		top := os.NewFile(uintptr(fd), dst)
		defer top.Close()
		// The new folder might have inherited the parent folder's group and set-group-id bit.
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
	w.marking = mark
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
