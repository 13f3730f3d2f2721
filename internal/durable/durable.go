// Package durable has files be on the disk before they are counted on, for when the host is switched off. The guest's agent, which is small, has its own.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// Sync has the bytes of a file, or the names in a folder, be on the disk.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Replace gives a file other bytes: who reads it, or finds it after a crash, has the old ones or the new. It is its owner's alone then. What a process that was killed left
// beside it has a name that begins with ".new-".
func Replace(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return err
	}
	return Sync(filepath.Dir(path))
}
