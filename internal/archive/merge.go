package archive

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// Merge unpacks a tar stream that comes from a machine into an existing directory. Entries keep
// their names; the entry "." is the directory itself. Existing directories keep their content and
// attributes, and other existing entries are replaced.
//
// Nothing outside of the directory is written, even if the stream or the directory has symbolic
// links that lead out of it. Merge is not atomic: after an error, earlier entries remain. A file
// gets its name only when it is complete.
//
// The caller owns all created files. Modes have no set-id and sticky bits. Limits and the kinds of
// errors are the same as in [Extract]. The kind is also Precondition if an entry does not fit the
// existing files.
func Merge(ctx context.Context, r io.Reader, target string, limits Limits) (Summary, error) {
	folder, err := os.OpenFile(target, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return Summary{}, fault.Wrap(cause(err), opExport, target)
	}
	defer folder.Close()
	f := &filter{in: tree.NewReader(ctx, r, limits.orDefaults().stream()), tally: tally{limits: limits.orDefaults()}}
	checked, out := io.Pipe()
	filtered := make(chan error, 1)
	go func() {
		err := f.copy(tar.NewWriter(out))
		out.CloseWithError(err)
		filtered <- err
	}()
	written, err := volume.Unpack(ctx, int(folder.Fd()), "/", checked, &volume.Owner{UID: os.Geteuid(), GID: os.Getegid()})
	checked.CloseWithError(errMerged)
	if failed := <-filtered; failed != nil && !errors.Is(failed, errMerged) {
		err = failed
	}
	if err != nil {
		return Summary{}, fault.Wrap(mergeError(err), opExport, target)
	}
	f.summary.Directories = int(written.Folders)
	return f.summary, nil
}

var errMerged = errors.New("the stream is no longer read")

// mergeError adds the kind and the name of the entry to an error of package volume.
func mergeError(err error) error {
	op := (*volume.OperationError)(nil)
	if !errors.As(err, &op) {
		return err
	}
	f := &fault.Error{Op: "entry", Subject: shortened(op.Path), Err: op.Err}
	switch {
	case errors.As(op.Err, new(volume.Conflict)), errors.Is(op.Err, volume.ErrNoFolder):
		f.Kind = fault.Precondition
	case errors.As(op.Err, new(volume.Invalid)):
		f.Kind = fault.Invalid
	}
	return f
}

// filter copies a stream from a machine. It rejects entries that the host must not have, and
// removes set-id bits, owners and extended attributes.
type filter struct {
	in      *tree.Reader
	tally   tally
	text    int       // total length of names and link targets, in bytes
	content io.Reader // content of the entry that check has returned
	summary Summary
}

func (f *filter) copy(to *tar.Writer) error {
	for {
		header, err := f.in.Next()
		if errors.Is(err, io.EOF) {
			return to.Close()
		}
		if err != nil {
			return err
		}
		name := header.Name
		clean, err := f.check(header)
		if err != nil {
			return inEntry(name, err)
		}
		if err := to.WriteHeader(clean); err != nil {
			return err
		}
		if _, err := io.Copy(to, f.content); err != nil {
			return err
		}
	}
}

// check returns the header that is passed on for an entry.
func (f *filter) check(h *tar.Header) (*tar.Header, error) {
	parts, err := splitName(h.Name)
	if err != nil {
		return nil, err
	}
	clean := &tar.Header{Typeflag: h.Typeflag, Name: path.Join(append([]string{"."}, parts...)...), Mode: h.Mode & 0o777, ModTime: h.ModTime, Format: tar.FormatPAX}
	switch h.Typeflag {
	case tar.TypeReg:
		clean.Size = h.Size
		f.summary.Files++
		f.summary.Bytes += h.Size
	case tar.TypeDir:
		clean.Name += "/"
	case tar.TypeSymlink:
		if err := checkText(h.Linkname); err != nil {
			return nil, err
		}
		clean.Linkname = h.Linkname
		f.summary.Symlinks++
		if mayEscape(len(parts)-1, h.Linkname) {
			f.summary.OutwardLinks++
		}
	case tar.TypeLink:
		target, err := splitName(h.Linkname)
		if err != nil || len(target) == 0 {
			return nil, refused("it is a hard link to %q, which is not an entry", shortened(h.Linkname))
		}
		clean.Linkname = strings.Join(target, "/")
		f.summary.HardLinks++
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return nil, refused("devices and FIFOs are not allowed")
	default:
		return nil, refused("unknown entry type %q", h.Typeflag)
	}
	if len(parts) == 0 && h.Typeflag != tar.TypeDir {
		return nil, refused("only a directory can be the top of the stream")
	}
	if f.text += len(clean.Name) + len(clean.Linkname); f.text > maxText {
		return nil, tooMuchText()
	}
	f.content, err = f.tally.counted(clean.Size, f.in)
	return clean, err
}
