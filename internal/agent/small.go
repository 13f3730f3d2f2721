package agent

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// maxSmall bounds a small file.
const maxSmall = 64 << 10

// ReadSmall reads a small file of the place's own. One that is not there, or not a file, is empty.
func ReadSmall(root int, name string) (string, error) {
	f, err := openRegular(root, name)
	if err != nil {
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, errNotRegular) {
			return "", nil
		}
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSmall+1))
	if err == nil && len(b) > maxSmall {
		err = &os.PathError{Op: "read", Path: name, Err: unix.EFBIG}
	}
	return string(b), err
}
