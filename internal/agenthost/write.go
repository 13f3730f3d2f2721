package agenthost

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// replaceFile gives a file of the user's another text: all of it, or it stays as it is. was is what was read of it, nil where it was not there. It gives the path
// of the copy that is kept of what was there, "" for nothing.
func replaceFile(path string, was, text []byte) (kept string, err error) {
	folder := filepath.Dir(path)
	mode := fs.FileMode(0o600)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && was == nil:
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return "", fault.Wrap(err, "make folder", folder)
		}
	case err != nil:
		return "", fault.Wrap(err, "write", path)
	case !info.Mode().IsRegular():
		return "", fault.New(fault.Precondition, "write", path, "it is a link, or no file")
	case int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid():
		return "", fault.New(fault.Permission, "write", path, "it belongs to another user")
	default:
		mode = info.Mode().Perm()
		if kept, err = keep(path, was, mode); err != nil {
			return "", err
		}
	}
	err = swap(path, was, text, mode)
	return kept, fault.Wrap(err, "write", path)
}

// keep writes a copy beside a file, under a name that nothing has.
func keep(path string, text []byte, mode fs.FileMode) (string, error) {
	for i := 1; i <= 1000; i++ {
		kept := fmt.Sprintf("%s.before-pyro-%d", path, i)
		f, err := os.OpenFile(kept, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			_, err = f.Write(text)
			err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
		}
		if err != nil {
			return "", fault.Wrap(err, "keep a copy of", path)
		}
		return kept, nil
	}
	return "", fault.New(fault.Exhausted, "keep a copy of", path, "there are 1000 copies already")
}

// swap writes beside the file and takes its place. What somebody else wrote there since it was read is not written over.
func swap(path string, was, text []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".pyro-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	if now, err := readFile(path); err != nil || !bytes.Equal(now, was) {
		return errors.Join(err, fault.Newf(fault.Precondition, "somebody has changed it meanwhile"))
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return durable.Sync(filepath.Dir(path))
}
