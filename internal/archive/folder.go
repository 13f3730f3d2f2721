package archive

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/sparse"
)

// maxPath is Linux's limit for the length of a path or link target, in bytes, including the final
// NUL.
const maxPath = 4096

// folder is a Source that reads a directory of the host.
type folder struct{ top *os.File }

// Close closes the directory.
func (f *folder) Close() error { return f.top.Close() }

// WriteTar walks the directory and writes its entries.
func (f *folder) WriteTar(ctx context.Context, w io.Writer, policy Policy) (Summary, error) {
	r := newWalk(ctx, w, policy, func(path string) string { return filepath.Join(f.top.Name(), path) })
	if err := tree.Walk(ctx, f.top, r); err != nil {
		return Summary{}, err
	}
	if err := r.out.close(); err != nil {
		return Summary{}, err
	}
	return r.summary, nil
}

// walk is the state of a walk through the directory.
type walk struct {
	ctx     context.Context
	ignored func(ctx context.Context, path string, folder bool) bool    // can be nil
	git     func(ctx context.Context, folder string) (GitFiles, string) // can be nil
	gitOf   GitFiles                                                    // replaces a .git; can be nil.
	gitTime unix.Timespec                                               // time of entries that have no file on the host.
	present func(path string, file int, st *unix.Stat_t) bool           // can be nil
	owners  bool                                                        // entries keep their owners
	tally   tally
	summary Summary
	subject func(path string) string // returns the host path
	out     *stream
	first   map[inode]string // the first path of each file with several hard links
}

type inode struct{ dev, ino uint64 }

// newWalk returns the state for writing a directory or a single path. subject returns the host path
// of an entry.
func newWalk(ctx context.Context, w io.Writer, policy Policy, subject func(path string) string) *walk {
	return &walk{
		ctx: ctx, ignored: policy.Ignored, git: policy.Git, present: policy.Present, owners: policy.Owners,
		tally: tally{limits: policy.Limits.orDefaults()}, subject: subject, out: newStream(w, policy.Below), first: map[inode]string{},
	}
}

// Choose removes ignored entries from content, and a .git that other files replace.
func (r *walk) Choose(ctx context.Context, in *tree.Folder, content []tree.Entry) []tree.Entry {
	content = r.chooseGit(ctx, in, content)
	if r.ignored == nil {
		return content
	}
	return slices.DeleteFunc(content, func(e tree.Entry) bool {
		ignored := r.ignored(ctx, in.Path(e.Name), e.Kind == unix.S_IFDIR)
		if ignored {
			r.summary.Ignored++
		}
		return ignored
	})
}

// Enter writes a directory and all of its entries except subdirectories.
func (r *walk) Enter(in *tree.Folder, content []tree.Entry) error {
	if !in.IsTop() {
		if err := r.entry(tar.TypeDir, in.Path(""), "", in.Stat); err != nil {
			return err
		}
		r.summary.Directories++
	}
	if r.gitOf != nil {
		if err := r.writeGit(in.Path(gitName)); err != nil {
			return err
		}
	}
	for _, e := range content {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		var err error
		switch e.Kind {
		case unix.S_IFDIR:
		case unix.S_IFREG:
			err = r.file(in, e.Name)
		case unix.S_IFLNK:
			err = r.symlink(in, e)
		default:
			r.summary.Skipped++
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Leave does nothing, because readers of the stream set the times of directories.
func (r *walk) Leave(*tree.Folder) error { return nil }

// entry writes the header of an entry.
func (r *walk) entry(kind byte, path, link string, st *unix.Stat_t) error {
	if len(path) >= maxPath {
		return fault.New(fault.Invalid, opRead, shortened(r.subject(path)), "its path is longer than %d bytes", maxPath-1)
	}
	size := int64(0)
	if kind == tar.TypeReg {
		size = st.Size
	}
	if err := r.tally.count(size); err != nil {
		return at(err, r.subject(path))
	}
	return r.out.owned(r.ownerOf(st), kind, path, link, st.Mode, time.Unix(st.Mtim.Unix()), size)
}

// regular writes the entry and the content of a regular file.
func (r *walk) regular(fd int, path string, st *unix.Stat_t) error {
	data, holes, err := sparse.Of(fd, st)
	switch {
	case err != nil:
		return at(err, r.subject(path))
	case len(path) >= maxPath || !holes:
		if err := r.entry(tar.TypeReg, path, "", st); err != nil {
			return err
		}
		return r.content(fd, sparse.Range{Length: st.Size}, path)
	}
	if err := cmp.Or(r.tally.count(data.Bytes()), r.tally.addHoles(st.Size)); err != nil {
		return at(err, r.subject(path))
	}
	header, owner := *st, r.ownerOf(st)
	header.Uid, header.Gid = uint32(owner.uid), uint32(owner.gid)
	if err := r.out.sparse(path, &header, data); err != nil {
		return err
	}
	for _, part := range data {
		if err := r.content(fd, part, path); err != nil {
			return err
		}
	}
	return r.out.pad(data.Bytes())
}

func (r *walk) ownerOf(st *unix.Stat_t) owner {
	if !r.owners {
		return owner{}
	}
	return owner{int(st.Uid), int(st.Gid)}
}

func (r *walk) file(in *tree.Folder, name string) error {
	path := in.Path(name)
	fd, st, err := in.Open(name)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return fault.New(fault.Permission, opRead, r.subject(path), "it is not readable: %w", err).WithHint("chmod u+r %q, or remove it", r.subject(path))
	}
	if err != nil {
		return at(err, r.subject(path))
	}
	defer unix.Close(fd)
	if st.Nlink > 1 {
		id := inode{uint64(st.Dev), st.Ino}
		if first, met := r.first[id]; met {
			r.summary.HardLinks++
			return r.entry(tar.TypeLink, path, first, &st)
		}
		r.first[id] = path
	}
	return r.opened(fd, path, &st)
}

// opened writes the regular file fd to the archive, unless the file is present. It fails if the
// file changes during the call.
func (r *walk) opened(fd int, path string, st *unix.Stat_t) error {
	// Other names of the file become links to this one, so the archive must contain it.
	if st.Nlink == 1 && r.present != nil && r.present(path, fd, st) {
		if err := r.tally.count(st.Size); err != nil {
			return at(err, r.subject(path))
		}
		r.summary.Unchanged++
	} else if err := r.regular(fd, path, st); err != nil {
		return err
	}
	r.summary.Files++
	r.summary.Bytes += st.Size
	var after unix.Stat_t
	if err := unix.Fstat(fd, &after); err != nil {
		return at(err, r.subject(path))
	}
	if after.Size != st.Size || after.Mtim != st.Mtim {
		return at(errChanged, r.subject(path))
	}
	return nil
}

var errChanged = &fault.Error{Kind: fault.Precondition, Err: errors.New("it changed while it was read")}

// content writes a part of a file.
func (r *walk) content(fd int, part sparse.Range, path string) error {
	for from, left := part.At, part.Length; left > 0; {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		space, err := r.out.space()
		if err != nil {
			return err
		}
		n, err := unix.Pread(fd, space[:min(left, int64(len(space)))], from)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return at(err, r.subject(path))
		case n == 0:
			return at(errChanged, r.subject(path))
		}
		if _, err := r.out.content.Write(space[:n]); err != nil {
			return err
		}
		from, left = from+int64(n), left-int64(n)
	}
	return nil
}

func (r *walk) symlink(in *tree.Folder, e tree.Entry) error {
	path := in.Path(e.Name)
	st, err := in.Lstat(e)
	if err != nil {
		return at(err, r.subject(path))
	}
	text, err := in.Readlink(e.Name)
	if err != nil {
		return at(err, r.subject(path))
	}
	r.summary.Symlinks++
	return r.entry(tar.TypeSymlink, path, text, &st)
}
