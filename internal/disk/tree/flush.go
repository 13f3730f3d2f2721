package tree

import (
	"context"

	"golang.org/x/sys/unix"
)

// Flush flushes the file system that contains path to its disk. Cancelling ctx does not stop a
// flush that has begun.
func Flush(ctx context.Context, path string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0) })
	if err != nil {
		return withPath(err, "flush", path)
	}
	defer unix.Close(fd)
	return withPath(unix.Syncfs(fd), "flush", path)
}
