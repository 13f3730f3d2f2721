package tree

import (
	"context"

	"golang.org/x/sys/unix"
)

// Flush returns when all of the file system that holds path, and so all of the tree there, is on its disk. A flush that has begun can't be cancelled.
func Flush(ctx context.Context, path string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	fd, err := again(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0) })
	if err != nil {
		return named(err, "flush", path)
	}
	defer unix.Close(fd)
	return named(unix.Syncfs(fd), "flush", path)
}
