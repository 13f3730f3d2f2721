package build

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/pyro-mcp/pyro/internal/disk/view"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// added is an entry of a new layer.
type added struct {
	header  tar.Header
	tree    view.Tree // contains the content of a regular file, if text is nil
	path    string    // in tree
	text    *string
	lowered bool // it is an unchanged folder of the lower tree, above new entries
}

// addition collects the entries of a new layer over the tree lower.
type addition struct {
	lower   view.Tree
	entries map[string]*added // by path
	parents owner             // of new folders above new entries
}

func newAddition(lower view.Tree) *addition {
	return &addition{lower: lower, entries: map[string]*added{}}
}

// destination is where a copy goes.
type destination struct {
	path   string // without links
	folder bool   // files go into the folder at path. Otherwise path is the name of the file.
}

// file returns the path for a file of the source.
func (d destination) file(name string) string {
	if d.folder {
		return path.Join(d.path, name)
	}
	return d.path
}

// destination resolves a destination in the lower tree.
func (a *addition) destination(name, workdir string) (destination, error) {
	full := name
	if !path.IsAbs(full) {
		full = path.Join("/", workdir) + "/" + full
	}
	at, err := resolve(a.lower, full, true)
	if err != nil {
		return destination{}, err
	}
	folder := strings.HasSuffix(name, "/") || name == "." || strings.HasSuffix(name, "/.")
	if info, err := a.lower.Lstat(at); err == nil && info.IsDir() {
		folder = true
	} else if err == nil && folder {
		return destination{}, fault.Newf(fault.Precondition, "%s is not a folder", name)
	}
	return destination{at, folder}, nil
}

// folder adds a folder. If keep is true, an existing folder keeps its owner and its mode.
func (a *addition) folder(name string, e *added, keep bool) error {
	switch info, err := a.lower.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !info.IsDir():
		return fault.Newf(fault.Precondition, "/%s is a file, and a folder can't replace it", name)
	case keep:
		return a.above(name)
	}
	if err := a.above(path.Dir(name)); err != nil {
		return err
	}
	if known := a.entries[name]; known == nil || known.header.Typeflag == tar.TypeDir {
		a.entries[name] = e
		return nil
	}
	return fault.Newf(fault.Precondition, "/%s is a file, and a folder can't replace it", name)
}

// file adds anything but a folder.
func (a *addition) file(name string, e *added) error {
	known := a.entries[name]
	if info, err := a.lower.Lstat(name); err == nil && info.IsDir() || known != nil && known.header.Typeflag == tar.TypeDir {
		return fault.Newf(fault.Precondition, "/%s is a folder, and a file can't replace it", name)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := a.above(path.Dir(name)); err != nil {
		return err
	}
	a.entries[name] = e
	return nil
}

// above adds a folder and its parents, with their attributes from the lower tree. It makes missing
// folders.
func (a *addition) above(name string) error {
	if a.entries[name] != nil {
		return nil
	}
	if name != "." {
		if err := a.above(path.Dir(name)); err != nil {
			return err
		}
	}
	info, err := a.lower.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		a.entries[name] = &added{header: tar.Header{Typeflag: tar.TypeDir, Mode: 0o755, Uid: a.parents.uid, Gid: a.parents.gid, ModTime: epoch}}
		return nil
	}
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() {
		return fault.Newf(fault.Precondition, "/%s is not a folder", name)
	}
	a.entries[name] = &added{lowered: true, header: tar.Header{
		Typeflag: tar.TypeDir, Mode: int64(st.Mode & 0o7777), Uid: int(st.Uid), Gid: int(st.Gid), ModTime: info.ModTime(),
	}}
	return nil
}

// empty reports whether the addition changes nothing.
func (a *addition) empty() bool {
	for _, e := range a.entries {
		if !e.lowered {
			return false
		}
	}
	return true
}

// hash returns a hash of the new entries. It ignores times, so that a new checkout of the same
// files has the same hash.
func (a *addition) hash(ctx context.Context) (string, error) { return a.write(ctx, io.Discard) }

// writeSame writes the layer. If the files no longer have the given hash, the error has kind
// Precondition.
func (a *addition) writeSame(ctx context.Context, to io.Writer, hash string) error {
	written, err := a.write(ctx, to)
	if err == nil && written != hash {
		err = fault.Newf(fault.Precondition, "the files changed during the build").WithHint("build again")
	}
	return err
}

// write writes the layer as an archive in the format of [view.Over]. It returns the hash of the
// entries.
func (a *addition) write(ctx context.Context, to io.Writer) (hash string, err error) {
	archive, sum := tar.NewWriter(to), sha256.New()
	for _, name := range slices.Sorted(maps.Keys(a.entries)) {
		e := a.entries[name]
		h := e.header
		if !e.lowered {
			fmt.Fprintf(sum, "%q %d %o %d:%d %d %q", name, h.Typeflag, h.Mode, h.Uid, h.Gid, h.Size, h.Linkname)
			for _, key := range slices.Sorted(maps.Keys(h.PAXRecords)) {
				fmt.Fprintf(sum, " %q=%q", key, h.PAXRecords[key])
			}
		}
		h.Name, h.Format = name, tar.FormatPAX
		if h.Typeflag == tar.TypeDir {
			h.Name += "/"
		}
		if err := archive.WriteHeader(&h); err != nil {
			return "", err
		}
		if err := e.content(ctx, io.MultiWriter(archive, sum)); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), archive.Close()
}

// content writes the content of a regular file.
func (e *added) content(ctx context.Context, to io.Writer) error {
	switch {
	case e.header.Typeflag != tar.TypeReg:
		return nil
	case e.text != nil:
		_, err := io.WriteString(to, *e.text)
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	f, err := e.tree.Open(e.path)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.Copy(to, io.LimitReader(f, e.header.Size))
	if err == nil && n < e.header.Size {
		err = fault.Newf(fault.Precondition, "%s became smaller during the build", e.path)
	}
	return err
}
