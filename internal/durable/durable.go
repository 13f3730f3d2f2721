// Package durable replaces files atomically, so that they survive a crash of the host. The agent in
// machines must be small, so it has its own code for this.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Sync flushes a file, or the names in a folder, to the disk.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Replace replaces the content of a file and flushes it. Readers see either the old or the new
// content, even after a crash. The mode of the file becomes 0600.
func Replace(path string, content []byte) error {
	return Replacement{}.Write(path, content)
}

// Replacement describes how to replace a file. If the process is killed during the replacement, a
// temporary file remains in the same folder.
type Replacement struct {
	Mode fs.FileMode // 0 means 0600

	// Temp is the name pattern of the temporary file; see [os.CreateTemp]. The empty string means
	// ".new-*".
	Temp string

	// Unflushed skips the flushes. If the host crashes, the file can then have the old content or
	// no content. If only the process is killed, the file stays intact. Use it for files that can
	// be created again, and for files that are written while a user waits for the start of a
	// machine.
	Unflushed bool

	// Check is called just before the new file gets its final name, unless Check is nil. If it
	// returns an error, the old file stays.
	Check func() error
}

// Write replaces the content of a file.
func (r Replacement) Write(path string, content []byte) error {
	return r.WriteFunc(path, func(f *os.File) error {
		_, err := f.Write(content)
		return err
	})
}

// WriteFunc calls the function write with a new file and then moves this file into place. If write
// fails, the old file stays, and WriteFunc returns the error unchanged. The function write must not
// close the file.
func (r Replacement) WriteFunc(path string, write func(*os.File) error) (err error) {
	temp := r.Temp
	if temp == "" {
		temp = ".new-*"
	}
	f, err := os.CreateTemp(filepath.Dir(path), temp)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if r.Mode != 0 {
		if err := f.Chmod(r.Mode); err != nil {
			return err
		}
	}
	if !r.Unflushed {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	if err := f.Close(); err != nil {
		return err
	}
	if r.Check != nil {
		if err := r.Check(); err != nil {
			return err
		}
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	if r.Unflushed {
		return nil
	}
	return Sync(filepath.Dir(path))
}
