package main

import (
	"archive/tar"
	"encoding/base64"
	"time"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/fspath"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/kernel/auth"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
	"gvisor.dev/gvisor/pkg/usermem"

	"github.com/pyro-mcp/pyro/runsc/layer"
)

// tree is a machine's environment with the machine's changes, but without other mounts in it. It
// accesses files with all rights.
type tree struct {
	ctx  context.Context
	vfs  *vfs.VirtualFilesystem
	user *auth.Credentials
	root vfs.VirtualDentry
}

var _ layer.Tree = (*tree)(nil)

func newTree(k *kernel.Kernel) (*tree, error) {
	ctx := k.SupervisorContext()
	machine := k.GlobalInit().Leader().MountNamespace().Root(ctx)
	defer machine.DecRef(ctx)
	seen, err := k.VFS().GetDentryAt(ctx, auth.NewRootCredentials(k.RootUserNamespace()), pathIn(machine, environment), &vfs.GetDentryOptions{})
	if err != nil {
		return nil, err
	}
	defer seen.DecRef(ctx)
	return treeOn(k, k.VFS().NewDisconnectedMount(seen.Mount().Filesystem(), seen.Dentry(), &vfs.MountOptions{})), nil
}

// treeOn returns the tree for a mount that nothing else uses.
func treeOn(k *kernel.Kernel, mount *vfs.Mount) *tree {
	return &tree{ctx: k.SupervisorContext(), vfs: k.VFS(), user: auth.NewRootCredentials(k.RootUserNamespace()), root: vfs.MakeVirtualDentry(mount, mount.Root())}
}

// pathIn returns the operation for a path in a folder. The path can't lead out of the folder.
func pathIn(folder vfs.VirtualDentry, path string) *vfs.PathOperation {
	return &vfs.PathOperation{Root: folder, Start: folder, Path: fspath.Parse(path)}
}

func (t *tree) at(name string) *vfs.PathOperation { return pathIn(t.root, name) }

// details returns the metadata that gVisor's description of the file system lacks.
func (t *tree) details(name string) (modified time.Time, xattrs map[string]string, err error) {
	stat, err := t.vfs.StatAt(t.ctx, t.user, t.at(name), &vfs.StatOptions{Mask: linux.STATX_MTIME})
	if err != nil {
		return modified, nil, err
	}
	modified = time.Unix(stat.Mtime.Sec, int64(int32(stat.Mtime.Nsec)))
	names, err := t.vfs.ListXattrAt(t.ctx, t.user, t.at(name), 0)
	if linuxerr.Equals(linuxerr.EOPNOTSUPP, err) {
		return modified, nil, nil
	}
	xattrs = make(map[string]string, len(names))
	for _, key := range names {
		value, err := t.vfs.GetXattrAt(t.ctx, t.user, t.at(name), &vfs.GetXattrOptions{Name: key})
		if err != nil {
			return modified, nil, err
		}
		xattrs[key] = value
	}
	return modified, xattrs, err
}

// kind returns the type of a file, or 0 if the file does not exist.
func (t *tree) kind(name string) (linux.FileMode, error) {
	stat, err := t.vfs.StatAt(t.ctx, t.user, t.at(name), &vfs.StatOptions{Mask: linux.STATX_TYPE})
	if linuxerr.Equals(linuxerr.ENOENT, err) {
		return 0, nil
	}
	return linux.FileMode(stat.Mode).FileType(), err
}

func (t *tree) Remove(name string) error {
	switch kind, err := t.kind(name); {
	case err != nil || kind == 0:
		return err
	case kind != linux.S_IFDIR:
		return t.vfs.UnlinkAt(t.ctx, t.user, t.at(name))
	}
	names, err := t.names(name)
	if err != nil {
		return err
	}
	for _, below := range names {
		if err := t.Remove(name + "/" + below); err != nil {
			return err
		}
	}
	return t.vfs.RmdirAt(t.ctx, t.user, t.at(name))
}

// names lists the names in a folder.
func (t *tree) names(name string) (names []string, err error) {
	fd, err := t.vfs.OpenAt(t.ctx, t.user, t.at(name), &vfs.OpenOptions{Flags: linux.O_RDONLY | linux.O_DIRECTORY | linux.O_NOFOLLOW})
	if err != nil {
		return nil, err
	}
	defer fd.DecRef(t.ctx)
	return names, fd.IterDirents(t.ctx, vfs.IterDirentsCallbackFunc(func(d vfs.Dirent) error {
		if d.Name != "." && d.Name != ".." {
			names = append(names, d.Name)
		}
		return nil
	}))
}

func (t *tree) Folder(name string) error {
	kind, err := t.kind(name)
	if err != nil || kind == linux.S_IFDIR {
		return err
	}
	if err := t.Remove(name); err != nil {
		return err
	}
	return t.vfs.MkdirAt(t.ctx, t.user, t.at(name), &vfs.MkdirOptions{Mode: 0o700})
}

func (t *tree) File(name string) (layer.File, error) {
	fd, err := t.vfs.OpenAt(t.ctx, t.user, t.at(name), &vfs.OpenOptions{Flags: linux.O_WRONLY | linux.O_CREAT | linux.O_EXCL, Mode: 0o600})
	if err != nil {
		return nil, err
	}
	return &file{t.ctx, fd}, nil
}

func (t *tree) Symlink(name, target string) error {
	return t.vfs.SymlinkAt(t.ctx, t.user, t.at(name), target)
}

func (t *tree) Link(old, name string) error {
	return t.vfs.LinkAt(t.ctx, t.user, t.at(old), t.at(name))
}

func (t *tree) Node(name string, kind byte, major, minor uint32) error {
	mode := map[byte]linux.FileMode{tar.TypeFifo: linux.S_IFIFO, tar.TypeChar: linux.S_IFCHR, tar.TypeBlock: linux.S_IFBLK}[kind]
	return t.vfs.MknodAt(t.ctx, t.user, t.at(name), &vfs.MknodOptions{Mode: mode | 0o600, DevMajor: major, DevMinor: minor})
}

// lists contains the attributes that are access control lists. gVisor stores them separately from
// other attributes.
var lists = map[string]vfs.ACLType{linux.XATTR_NAME_POSIX_ACL_ACCESS: vfs.AccessACL, linux.XATTR_NAME_POSIX_ACL_DEFAULT: vfs.DefaultACL}

func (t *tree) Set(name string, m layer.Metadata) error {
	stat := linux.Statx{
		Mask: linux.STATX_UID | linux.STATX_GID | linux.STATX_MODE | linux.STATX_MTIME, UID: m.UID, GID: m.GID, Mode: uint16(m.Mode),
		Mtime: linux.StatxTimestamp{Sec: m.Modified.Unix(), Nsec: uint32(m.Modified.Nanosecond())},
	}
	if m.Symlink {
		stat.Mask &^= linux.STATX_MODE
	}
	for key, value := range m.Xattrs {
		if err := t.setXattr(name, key, value); err != nil {
			return err
		}
	}
	return t.vfs.SetStatAt(t.ctx, t.user, t.at(name), &vfs.SetStatOptions{Stat: stat})
}

func (t *tree) setXattr(name, key, value string) error {
	kind, isList := lists[key]
	if !isList {
		return t.vfs.SetXattrAt(t.ctx, t.user, t.at(name), &vfs.SetXattrOptions{Name: key, Value: value})
	}
	packed, err := base64.RawStdEncoding.DecodeString(value)
	if err != nil {
		return err
	}
	list, err := vfs.ParsePosixACL(packed, t.user.UserNamespace)
	if err != nil {
		return err
	}
	_, _, err = t.vfs.SetPosixACLAt(t.ctx, t.user, t.at(name), kind, list, false)
	return err
}

// file is an open new file.
type file struct {
	ctx context.Context
	fd  *vfs.FileDescription
}

func (f *file) WriteAt(p []byte, offset int64) (int, error) {
	n, err := f.fd.PWrite(f.ctx, usermem.BytesIOSequence(p), offset, vfs.WriteOptions{})
	return int(n), err
}

func (f *file) Truncate(size int64) error {
	return f.fd.SetStat(f.ctx, vfs.SetStatOptions{Stat: linux.Statx{Mask: linux.STATX_SIZE, Size: uint64(size)}})
}

func (f *file) Close() error {
	f.fd.DecRef(f.ctx)
	return nil
}
