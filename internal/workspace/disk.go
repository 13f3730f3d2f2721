package workspace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/disk/view"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/storage"
	"github.com/pyro-mcp/pyro/internal/store"
)

// offline opens the disks of a stopped or paused workspace to read a path. The workspace can't
// start until the caller calls the returned function.
func (m *Manager) offline(ctx context.Context, id, inside string) (*storage.View, func(), error) {
	lock, err := m.lock(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	var v *storage.View
	var release func()
	elsewhere, err := m.rootInCheckpoint(ctx, id)
	switch {
	case err != nil:
	case elsewhere && !strings.HasPrefix(inside+"/", Path[1:]+"/"):
		err = fault.New(fault.Precondition, "read the disk of workspace", id, "it is paused, and its changes outside of %s are in its memory", Path).WithHint("%s", fault.Act("workspace_stop", "pyro workspace stop %s", id))
	default:
		v, release, err = m.open(ctx, id)
	}
	if err != nil {
		lock.Release()
		return nil, nil, err
	}
	return v, func() {
		release()
		lock.Release()
	}, nil
}

func (m *Manager) open(ctx context.Context, id string) (*storage.View, func(), error) {
	w, err := m.record(ctx, store.KindWorkspace, id)
	if err != nil {
		return nil, nil, err
	}
	features, err := m.features(w.Spec)
	switch {
	case err != nil:
		return nil, nil, err
	case !features.Isolated:
		return nil, nil, fault.New(fault.Unsupported, "read the disk of workspace", id, "it has none: it is host_compat")
	case m.folder(id).Alive():
		return nil, nil, fault.New(fault.Precondition, "read the disk of workspace", id, "it runs").WithHint("%s", fault.Act("workspace_stop", "pyro workspace stop %s", id))
	}
	if err := m.folder(id).AwaitEnd(ctx); err != nil { // wait if the machine has just ended
		return nil, nil, err
	}
	if w, err = m.Store.Workspace(ctx, id); err != nil { // read again, because a supervisor that has just ended might have replaced disks
		return nil, nil, err
	}
	ref, err := m.environmentOf(ctx, w, nil)
	if err != nil {
		return nil, nil, err
	}
	disks, err := m.disks(w)
	if err != nil {
		ref.Close()
		return nil, nil, err
	}
	v, err := disks.OpenView(ctx, m.written(disks, w.Disks), ref.Image)
	if err != nil {
		ref.Close()
		return nil, nil, fault.Wrap(err, "read the disk of workspace", id)
	}
	return v, func() {
		v.Close()
		ref.Close()
	}, nil
}

// written returns d without the root disk if no machine has written to the root disk yet.
func (m *Manager) written(f storage.Folder, d store.Disks) store.Disks {
	if len(d.Root) == 1 {
		if _, err := os.Lstat(f.DiskPath(d.Root[0])); errors.Is(err, fs.ErrNotExist) {
			d.Root = nil
		}
	}
	return d
}

// onDisk returns the path in a view for a path from the user. The user's path is absolute, or
// relative to /workspace.
func onDisk(name string) (string, error) {
	name, err := fromUser(name)
	if err != nil {
		return "", err
	}
	clean := path.Join(Path, name)
	if strings.HasPrefix(name, "/") {
		clean = path.Clean(name)
	}
	if clean == "/" {
		return ".", nil
	}
	return clean[1:], nil
}

// ListDisk lists a path on the disks of a stopped workspace. For a folder it lists the direct
// content, or everything below it if recursive is true. It does not follow links. It calls the
// function each with absolute paths, starting with the path itself.
func (m *Manager) ListDisk(ctx context.Context, id, name string, recursive bool, each func(path string, info fs.FileInfo, target string) error) error {
	inside, err := onDisk(name)
	if err != nil {
		return err
	}
	v, release, err := m.offline(ctx, id, inside)
	if err != nil {
		return err
	}
	defer release()
	err = fs.WalkDir(v.FS, inside, func(at string, d fs.DirEntry, err error) error {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		target := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if target, err = v.ReadLink(at); err != nil {
				return err
			}
		}
		if err := each("/"+strings.TrimPrefix(at, "."), info, target); err != nil {
			return err
		}
		if d.IsDir() && at != inside && !recursive {
			return fs.SkipDir
		}
		return nil
	})
	return diskError(err, "list", name)
}

// ReadDisk reads the start of a text file on the disks of a stopped workspace. ReadFile does the
// same for a running workspace.
func (m *Manager) ReadDisk(ctx context.Context, id, name string, most int) (Text, string, error) {
	inside, err := onDisk(name)
	if err != nil {
		return Text{}, "", err
	}
	v, release, err := m.offline(ctx, id, inside)
	if err != nil {
		return Text{}, "", err
	}
	defer release()
	absolute := "/" + strings.TrimPrefix(inside, ".")
	f, err := v.Open(inside)
	if err != nil {
		return Text{}, absolute, diskError(err, "read", absolute)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Text{}, absolute, diskError(err, "read", absolute)
	}
	if !info.Mode().IsRegular() {
		return Text{}, absolute, fault.New(fault.Precondition, "read", absolute, "it is not a regular file")
	}
	var content bytes.Buffer
	if _, err := io.Copy(&content, io.LimitReader(f, int64(most)+1)); err != nil {
		return Text{}, absolute, diskError(err, "read", absolute)
	}
	t, err := textOf(content.Bytes(), most, info.Size())
	if err != nil {
		return t, absolute, fault.Wrap(err, "read", absolute).(*fault.Error).WithHint("%s", fault.Act("workspace_disk_export", "pyro workspace disk export %s --output FILE", id))
	}
	return t, absolute, nil
}

// diskError adds an operation, a subject and a kind to an error from a view.
func diskError(err error, op, name string) error {
	if err == nil {
		return nil
	}
	f := &fault.Error{Op: op, Subject: name, Err: err}
	switch {
	case errors.Is(err, view.ErrSymlink):
		f.Kind, f.Err = fault.Precondition, errors.New("it is, or leads through, a symbolic link, which is not followed on a disk")
	case errors.Is(err, fs.ErrNotExist):
		f.Kind, f.Err = fault.NotFound, fs.ErrNotExist
	}
	return f
}

// DiskImage describes an exported disk image.
type DiskImage struct {
	Path      string // absolute
	Size      int64  // in bytes
	Allocated int64  // bytes used on the host; less than Size, because the file is sparse
}

// ExportDisk copies the disks of a stopped workspace to a file on the host. The file is one raw
// ext4 image that includes /workspace. An existing file is replaced only if force is true.
func (m *Manager) ExportDisk(ctx context.Context, id, output string, force bool, report progress.Func) (DiskImage, error) {
	absolute, err := filepath.Abs(output)
	if err != nil {
		return DiskImage{}, err
	}
	if _, err := os.Lstat(absolute); err == nil && !force {
		return DiskImage{}, fault.New(fault.Exists, "export disk to", absolute, "it already exists").WithHint("--force replaces it")
	}
	v, release, err := m.offline(ctx, id, ".")
	if err != nil {
		return DiskImage{}, err
	}
	defer release()
	w, err := m.record(ctx, store.KindWorkspace, id)
	if err != nil {
		return DiskImage{}, err
	}
	report.Phase("writing the image", absolute)
	if err := view.Export(ctx, v.FS, absolute); err != nil {
		return DiskImage{}, err
	}
	image := DiskImage{Path: absolute}
	if info, failed := os.Stat(absolute); failed == nil {
		image.Size = info.Size()
	}
	image.Allocated, err = disk.Allocated(absolute)
	m.addEvent(ctx, w, time.Now(), store.EventExport, store.Detail{Path: "/", Host: absolute, Artifact: ArtifactDisk, Bytes: image.Size})
	return image, err
}
