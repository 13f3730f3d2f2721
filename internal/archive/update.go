package archive

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// UpdateOptions contains the options of an update.
type UpdateOptions struct {
	Delete bool // remove entries that the stream does not have
	DryRun bool // change nothing
	Limits Limits

	// Omit reports whether to leave out an entry of the stream. It must report the contents of an
	// omitted directory too. The default leaves out nothing.
	Omit func(path string) bool
	// Protected reports whether Delete must not remove an entry. Update calls it for a directory
	// before it calls it for the contents of the directory. Update itself protects directories
	// named .git and special files.
	Protected func(ctx context.Context, path string, directory bool) bool
	// Apply applies a tar archive of operations to a directory atomically; see
	// [volume.Volume.Change].
	Apply func(ctx context.Context, directory string, operations io.Reader) (volume.Counts, error)
}

// Updated describes the effect of an update. In a dry run, Created and Replaced are 0.
type Updated struct {
	Summary
	Created, Replaced int64
	Omitted           int      // number of entries that Omit left out
	Deleted           []string // the removed paths, relative to the target, in the order of their removal
}

// Update writes the directory that a tar stream from a machine contains into an existing directory.
// The stream is as in [Extract]. Update adds and replaces entries, and removes nothing, unless
// Delete is set. While a file is replaced, its path always has the old or the new file. Existing
// directories keep their attributes.
//
// Update is as atomic as Apply. Nothing outside of target is written, because links are not
// followed. If only one of the old and the new entry is a directory, the error has the kind
// Precondition and names the entry. Limits and other errors are the same as in [Extract].
func Update(ctx context.Context, r io.Reader, target string, o UpdateOptions) (Updated, error) {
	u := &update{ctx: ctx, target: target, options: o, seen: map[string]bool{}}
	limits := o.Limits.orDefaults()
	u.in, u.tally = tree.NewReader(ctx, r, limits.stream()), tally{limits: limits}
	if o.DryRun {
		o.Apply = func(_ context.Context, _ string, operations io.Reader) (volume.Counts, error) {
			_, err := io.Copy(io.Discard, operations)
			return volume.Counts{}, err
		}
	}
	operations, out := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := u.write(tar.NewWriter(out))
		out.CloseWithError(err)
		written <- err
	}()
	counts, err := o.Apply(ctx, target, operations)
	operations.CloseWithError(errMerged)
	if failed := <-written; failed != nil && !errors.Is(failed, errMerged) {
		err = failed
	}
	if err != nil {
		return Updated{}, fault.Wrap(mergeError(err), opExport, target)
	}
	return Updated{Summary: u.summary, Created: counts.Created, Replaced: counts.Replaced, Omitted: u.omitted, Deleted: u.deleted}, nil
}

// update is the state of a call of Update.
type update struct {
	filter
	ctx     context.Context
	target  string
	options UpdateOptions
	top     string // name of the first entry, or "" if it is "."
	begun   bool
	seen    map[string]bool // the entries of the stream
	omitted int
	deleted []string
}

// write writes the operations.
func (u *update) write(to *tar.Writer) error {
	for {
		h, err := u.in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name := h.Name
		if err := u.entry(to, h); err != nil {
			return inEntry(name, err)
		}
	}
	if !u.begun {
		return refused("the stream is empty")
	}
	if u.options.Delete {
		if _, err := u.remove(to, "."); err != nil {
			return err
		}
	}
	return to.Close()
}

// entry writes the operation for one entry of the stream.
func (u *update) entry(to *tar.Writer, h *tar.Header) error {
	first := !u.begun
	if first {
		if err := u.first(h); err != nil {
			return err
		}
	}
	var err error
	if h.Name, err = u.below(h.Name); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeLink {
		if h.Linkname, err = u.below(h.Linkname); err != nil {
			return err
		}
	}
	if omit := u.options.Omit; omit != nil && !first {
		switch {
		case omit(h.Name):
			u.omitted++
			return nil
		case h.Typeflag == tar.TypeLink && omit(h.Linkname):
			return refused("it is a hard link to %q, which is left out", shortened(h.Linkname))
		}
	}
	clean, err := u.check(h)
	if err != nil || first {
		return err
	}
	clean.Name = path.Clean(clean.Name)
	if clean.Name == "." || u.seen[clean.Name] {
		return refused("it is a duplicate")
	}
	u.seen[clean.Name] = true
	if clean.Typeflag == tar.TypeDir {
		clean.PAXRecords = map[string]string{volume.RecordKeep: "1"}
	}
	if err := to.WriteHeader(clean); err != nil {
		return err
	}
	_, err = io.Copy(to, u.content)
	return err
}

// first checks the first entry of the stream.
func (u *update) first(h *tar.Header) error {
	parts, err := splitName(h.Name)
	switch {
	case err != nil:
		return err
	case h.Typeflag != tar.TypeDir:
		return refused("only a directory can be written into a directory")
	case len(parts) > 1:
		return refused("the name of the first entry must be a single component")
	case len(parts) == 1:
		u.top = parts[0]
	}
	u.begun = true
	return nil
}

// below returns a name in the stream relative to the first entry.
func (u *update) below(name string) (string, error) {
	parts, err := splitName(name)
	if err != nil {
		return "", err
	}
	if u.top != "" {
		if len(parts) == 0 || parts[0] != u.top {
			return "", refused("it is not below the first entry, %q", shortened(u.top))
		}
		parts = parts[1:]
	}
	return path.Join(append([]string{"."}, parts...)...), nil
}

// remove writes operations that remove entries from an existing directory if the stream does not
// contain them. It reports whether the directory will be empty.
func (u *update) remove(to *tar.Writer, directory string) (empty bool, err error) {
	if err := u.ctx.Err(); err != nil {
		return false, err
	}
	entries, err := os.ReadDir(filepath.Join(u.target, directory))
	if err != nil {
		return false, err
	}
	empty = true
	for _, e := range entries {
		name := path.Join(directory, e.Name())
		removed, err := u.removeEntry(to, name, e)
		if err != nil {
			return false, err
		}
		empty = empty && removed
	}
	return empty, nil
}

// removeEntry writes the operations that remove an entry, and reports whether they remove it
// completely.
func (u *update) removeEntry(to *tar.Writer, name string, e fs.DirEntry) (removed bool, err error) {
	kind := e.Type()
	if e.Name() == ".git" || kind&^(fs.ModeDir|fs.ModeSymlink) != 0 || u.options.Protected != nil && u.options.Protected(u.ctx, name, e.IsDir()) {
		return false, nil
	}
	if kind.IsDir() {
		empty, err := u.remove(to, name)
		if err != nil || !empty || u.seen[name] {
			return false, err
		}
	} else if u.seen[name] {
		return false, nil
	}
	if len(u.deleted) == maxDeleted {
		return false, refused("more than %d entries would be removed", maxDeleted)
	}
	u.deleted = append(u.deleted, name)
	return true, to.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Format: tar.FormatPAX, PAXRecords: map[string]string{volume.RecordOperation: "delete"},
	})
}

// maxDeleted is the maximum number of entries that an update removes.
const maxDeleted = 1_000_000
