// Package hostfolder changes folders of the host that contain files of the user.
//
// A change is atomic: after a crash or a kill at any moment, recovery completes or undoes it. While
// a file is replaced, its path always has the old or the new file. Links are never followed.
package hostfolder

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/flock"
)

// StagingPrefix begins the name of the folder with the staged files of a change. This folder is in
// the changed folder, so that it is on the same file system. It exists only during the change.
const StagingPrefix = ".pyro-change-"

// Journal is the path of a folder that records the changes in progress, one file for each change.
// Journal creates it if it is missing. Recovery ignores staging folders without a record, so that
// files from a machine can't imitate an interrupted change.
type Journal string

// record is the record of one change. Its lock is held while the change is in progress.
type record struct {
	path   string
	folder string // the changed folder
	lock   *flock.Lock
}

// staging returns the path of the folder with the staged files.
func (r record) staging() string {
	return filepath.Join(r.folder, StagingPrefix+filepath.Base(r.path))
}

// Change applies a tar archive of operations to a folder; see [volume.Volume.Change]. Its errors
// are the same. On an error, nothing has changed. Change first recovers interrupted changes.
func (j Journal) Change(ctx context.Context, folder string, archive io.Reader) (counts volume.Counts, err error) {
	if folder, err = filepath.Abs(folder); err != nil {
		return counts, err
	}
	if err := j.recover(folder); err != nil {
		return counts, err
	}
	r, err := j.begin(folder)
	if err != nil {
		return counts, err
	}
	defer r.lock.Release()
	v, err := r.open()
	if err != nil {
		return counts, errors.Join(err, r.remove())
	}
	counts, err = v.Change(ctx, archive)
	if closed := v.Close(context.WithoutCancel(ctx)); err == nil {
		err = closed
	}
	// The change itself is complete or undone. Recovery removes the rest later.
	if left := r.remove(); left != nil && err != nil {
		err = errors.Join(err, left)
	}
	return counts, err
}

// begin records a change.
func (j Journal) begin(folder string) (record, error) {
	if err := os.MkdirAll(string(j), 0o700); err != nil {
		return record{}, err
	}
	r := record{path: filepath.Join(string(j), strings.ToLower(rand.Text())), folder: folder}
	var err error
	if r.lock, err = flock.Try(r.path, flock.Exclusive); err != nil {
		return r, err
	}
	if err = os.WriteFile(r.path, []byte(folder), 0o600); err == nil {
		err = durable.Sync(r.path)
	}
	if err == nil {
		err = durable.Sync(string(j))
	}
	if err == nil {
		err = os.Mkdir(r.staging(), 0o700)
	}
	if err == nil {
		// git does not list the folder, and seeds omit it.
		err = os.WriteFile(filepath.Join(r.staging(), ".gitignore"), []byte("*\n"), 0o600)
	}
	if err != nil {
		err = errors.Join(err, r.remove())
		r.lock.Release()
	}
	return r, err
}

// open opens the folder, and completes or undoes an interrupted change.
func (r record) open() (*volume.Volume, error) {
	files, err := openFolder(r.folder, 0)
	if err != nil {
		return nil, err
	}
	root, err := openFolder(r.staging(), unix.O_NOFOLLOW)
	if err != nil {
		files.Close()
		return nil, err
	}
	v, _, err := volume.OpenFolder(root, files, volume.LocalFS)
	return v, err
}

func openFolder(path string, flags int) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// remove removes the staging folder and the record, unless the change still needs them.
func (r record) remove() error {
	err := os.Remove(filepath.Join(r.staging(), volume.PendingFolder))
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		err = os.RemoveAll(r.staging())
	}
	if err != nil && !errors.Is(err, unix.ENOTDIR) {
		return err
	}
	return os.Remove(r.path)
}

// Recover completes or undoes the changes that were interrupted, for example by a kill. It ignores
// changes that other processes are making. Recover is cheap if there are none.
func (j Journal) Recover() error { return j.recover("") }

// recover completes or undoes interrupted changes, as Recover does. If folder is not empty, it
// returns only errors about this folder.
func (j Journal) recover(folder string) error {
	entries, err := os.ReadDir(string(j))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		path := filepath.Join(string(j), e.Name())
		if in, failed := recoverRecord(path); failed != nil && (folder == "" || folder == in) {
			err = errors.Join(err, fmt.Errorf("recover the interrupted change of %q that %q records: %w", in, path, failed))
		}
	}
	return err
}

// recoverRecord recovers one change, and returns its folder.
func recoverRecord(path string) (folder string, err error) {
	lock, err := flock.Try(path, flock.Exclusive)
	if errors.Is(err, flock.ErrHeld) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer lock.Release()
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	r := record{path: path, folder: string(content)}
	if r.folder == "" { // it was interrupted before it changed anything
		return "", os.Remove(path)
	}
	v, err := r.open()
	switch {
	case missing(err): // the change was already complete, unless the folder itself is missing
		if _, err := os.Stat(r.folder + "/."); missing(err) {
			return r.folder, nil // it can come back, for example with its disk
		}
	case err != nil:
		return r.folder, err
	default:
		if err := v.Close(context.Background()); err != nil {
			return r.folder, err
		}
	}
	return r.folder, r.remove()
}

func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }
