package volume

import (
	"errors"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// maxSmall is the maximum size of a small file, in bytes. Lists of hosts to block have some
// megabytes.
const maxSmall = 16 << 20

// ReadSmall reads a small file below root. It returns "" if the file is missing or is not a regular
// file.
func ReadSmall(root int, name string) (string, error) {
	f, err := OpenRegular(root, name)
	if err != nil {
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, ErrNotRegular) {
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

// WriteSmall writes a small file below root, if its directory exists. It uses a single write, and
// does not flush the file. If the file already has the content, WriteSmall does nothing.
func WriteSmall(root int, name, content string) error {
	if present, err := ReadSmall(root, name); err == nil && present == content && content != "" {
		return nil
	}
	f, err := OpenIn(root, name, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NONBLOCK|unix.O_NOCTTY, 0o644)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil // an environment without this directory does not need the file
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(content)
	return err
}

// RemoveMatching removes the entries of a directory that match a path.Match pattern. If the
// directory is missing, RemoveMatching does nothing.
func RemoveMatching(root int, dirname, pattern string) error {
	dir, err := OpenIn(root, dirname, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		if ok, _ := path.Match(pattern, name); !ok {
			continue
		}
		if err := unix.Unlinkat(int(dir.Fd()), name, 0); err != nil && err != unix.ENOENT {
			return &os.PathError{Op: "unlink", Path: path.Join(dirname, name), Err: err}
		}
	}
	return err
}

// Unlink removes a symbolic link below root. It does not remove other entries. Call it before
// WriteSmall, which would follow the link.
func Unlink(root int, name string) error {
	dirname, base := path.Split(name)
	dir, err := OpenIn(root, dirname, unix.O_PATH|unix.O_DIRECTORY, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	var st unix.Stat_t
	err = unix.Fstatat(int(dir.Fd()), base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		err = unix.Unlinkat(int(dir.Fd()), base, 0)
	}
	if err != nil && err != unix.ENOENT {
		return &os.PathError{Op: "unlink", Path: name, Err: err}
	}
	return nil
}
