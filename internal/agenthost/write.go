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

// replaceFile atomically replaces the text of a user's file. The caller passes the text that it has
// read before, or nil if there was no file. replaceFile returns the path of the backup, or "" if
// there was no file.
func replaceFile(path string, was, text []byte) (backupPath string, err error) {
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
		return "", fault.New(fault.Precondition, "write", path, "not a regular file")
	case int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid():
		return "", fault.New(fault.Permission, "write", path, "it belongs to another user")
	default:
		mode = info.Mode().Perm()
		if backupPath, err = backup(path, was, mode); err != nil {
			return "", err
		}
	}
	err = swap(path, was, text, mode)
	return backupPath, fault.Wrap(err, "write", path)
}

// backup writes a copy of a file into the same folder, under an unused name.
func backup(path string, text []byte, mode fs.FileMode) (string, error) {
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
			return "", fault.Wrap(err, "back up", path)
		}
		return kept, nil
	}
	return "", fault.New(fault.Exhausted, "back up", path, "there are already 1000 backups")
}

// swap writes a temporary file and renames it to path. It fails if the file at path has changed
// since it was read.
func swap(path string, was, text []byte, mode fs.FileMode) error {
	unchanged := func() error {
		if now, err := readFile(path); err != nil || !bytes.Equal(now, was) {
			return errors.Join(err, fault.Newf(fault.Precondition, "the file changed in the meantime"))
		}
		return nil
	}
	return durable.Replacement{Mode: mode, Temp: ".pyro-*", Check: unchanged}.Write(path, text)
}
