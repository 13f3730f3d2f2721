package archive

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/fault"
)

const opExport = "export to"

// Options contains the options of an export.
type Options struct {
	Force  bool // replace an existing target
	Limits Limits
}

// Extract creates target from a tar stream that comes from a machine. The first entry is a file,
// symbolic link or directory, and becomes target. In the stream its name is a single component, or
// "." for a directory. If it is a directory, the following entries are its content, each after its
// parent.
//
// Extract reads the stream to its end. If the first entry is a directory, the summary does not
// count that entry.
//
// Extract is atomic. It prepares the content under a temporary name next to target, in a directory
// that other users can't access. It then flushes the content to disk and renames it. On an error
// and on cancellation, target is unchanged and nothing else remains.
//
// With Force, Extract exchanges the old and the new content, and then removes the old content. If
// only this removal fails, the export is complete, and the error contains the path of the rest. If
// the process is killed, the new or the old content can remain next to target, under a name that
// begins with ".pyro-export-".
//
// The caller owns all created files. Extract preserves modification times, and modes without set-id
// and sticky bits. It creates symbolic links unchanged and never follows them. Summary.OutwardLinks
// counts symbolic links that might lead out of the export. Hard links must refer to earlier files
// of the stream.
//
// Errors have the following kinds:
//   - Exists if target already exists.
//   - NotFound if the parent directory of target does not exist.
//   - Invalid if the stream is truncated, damaged or hostile, or contains devices or FIFOs.
//   - Exhausted if the content exceeds the limits or the free disk space.
//
// Extract wraps errors from r.
func Extract(ctx context.Context, r io.Reader, target string, options Options) (Summary, error) {
	to, err := newDestination(target)
	if err != nil {
		return Summary{}, err
	}
	defer to.folder.Close()
	if err := to.check(options.Force); err != nil {
		return Summary{}, err
	}
	x := &export{ctx: ctx, in: r, to: to, tally: tally{limits: options.Limits.orDefaults()}}
	err = x.stage()
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = to.install(options.Force)
	}
	if err != nil {
		err = fault.Wrap(err, opExport, target)
		if left := to.removeStaged(ctx); left != nil {
			err = errors.Join(err, left)
		}
		return Summary{}, err
	}
	flushed := to.flush()
	if err := to.removeStaged(ctx); err != nil {
		return x.summary, fault.Wrap(err, "the export is in place, but the previous content can't be removed from", to.path(to.staged))
	}
	return x.summary, flushed
}

// export is the state of a call of Extract.
type export struct {
	ctx     context.Context
	in      io.Reader
	to      *destination
	out     *tree.Writer
	tally   tally
	text    int    // Total length of names and link targets, in bytes.
	top     string // Name of the first entry, or "" if it is ".".
	alone   bool   // The first entry is not a directory.
	summary Summary
}

// stage writes the content of the stream under the temporary name.
func (x *export) stage() error {
	out, err := tree.NewWriter(x.to.folder)
	if err != nil {
		return err
	}
	defer out.Close()
	x.out = out
	entries := tree.NewReader(x.ctx, x.in, x.tally.limits.stream())
	if err := x.first(entries); err != nil {
		return err
	}
	for {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name := header.Name
		if err := x.add(header, entries); err != nil {
			return inEntry(name, err)
		}
	}
	return x.written(x.finish())
}

// first processes the first entry of the stream.
func (x *export) first(entries *tree.Reader) error {
	header, err := entries.Next()
	if errors.Is(err, io.EOF) {
		return refused("the stream is empty")
	}
	if err != nil {
		return err
	}
	parts, err := splitName(header.Name)
	if err != nil {
		return inEntry(header.Name, err)
	}
	x.alone = header.Typeflag != tar.TypeDir
	switch {
	case len(parts) > 1, len(parts) == 0 && x.alone:
		return inEntry(header.Name, refused("the name of the first entry must be a single component"))
	case len(parts) == 1:
		x.top = parts[0]
	}
	if header.Typeflag == tar.TypeLink {
		return inEntry(header.Name, refused("it is a hard link to a file outside of the export"))
	}
	x.out.Sync = x.alone
	if err := x.write(header, x.to.staged, entries); err != nil {
		return inEntry(strings.Join(parts, "/"), err)
	}
	return nil
}

// add adds an entry below the first entry.
func (x *export) add(header *tar.Header, content *tree.Reader) error {
	if x.alone {
		return refused("its directory is not part of the export")
	}
	name, err := x.staged(header.Name)
	if err != nil {
		return err
	}
	return x.write(header, name, content)
}

// staged returns the path below the temporary name that corresponds to a name in the stream.
func (x *export) staged(name string) (string, error) {
	parts, err := splitName(name)
	if err != nil {
		return "", err
	}
	if x.top != "" {
		if len(parts) == 0 || parts[0] != x.top {
			return "", refused("it is not below the first entry, %q", shortened(x.top))
		}
		parts = parts[1:]
	}
	if len(parts) == 0 {
		return "", refused("it is a duplicate")
	}
	return x.to.staged + "/" + strings.Join(parts, "/"), nil
}

// write writes an entry under a different name.
func (x *export) write(header *tar.Header, name string, content *tree.Reader) error {
	size := int64(0)
	switch header.Typeflag {
	case tar.TypeReg:
		size = header.Size
	case tar.TypeDir:
	case tar.TypeSymlink:
		if err := checkText(header.Linkname); err != nil {
			return err
		}
		if x.alone || mayEscape(strings.Count(name, "/")-1, header.Linkname) {
			x.summary.OutwardLinks++
		}
	case tar.TypeLink:
		target, err := x.staged(header.Linkname)
		if err != nil {
			return refused("it is a hard link to %q: %w", shortened(header.Linkname), err)
		}
		header.Linkname = target
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return refused("devices and FIFOs are not allowed")
	default:
		return refused("unknown entry type %q", header.Typeflag)
	}
	counted, err := x.tally.counted(size, content)
	if err != nil {
		return err
	}
	if x.text += len(name) + len(header.Linkname); x.text > maxText {
		return tooMuchText()
	}
	header.Name, header.Mode = name, header.Mode&0o777
	return x.written(x.out.Add(header, counted))
}

// written replaces the temporary name in an error with the name in the stream.
func (x *export) written(err error) error {
	of := (*fault.Error)(nil)
	if errors.As(err, &of) {
		if rest, ok := strings.CutPrefix(of.Subject, x.to.staged); ok {
			return inEntry(cmp.Or(x.top, ".")+rest, of.Err)
		}
	}
	return err
}

// mayEscape reports whether a symbolic link might lead out of the export. depth is the depth of the
// link's directory. A link might escape if its target climbs too far with "..". It might also
// escape if its target climbs after a component that can be a link.
func mayEscape(depth int, text string) bool {
	if strings.HasPrefix(text, "/") {
		return true
	}
	down := false
	for part := range strings.SplitSeq(text, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 || down {
				return true
			}
		default:
			down = true
		}
	}
	return false
}

// finish sets the modes of directories, and flushes everything to disk.
func (x *export) finish() error {
	if x.alone {
		if err := x.out.Finish(); err != nil {
			return err
		}
	} else {
		// After Finish the directory might not be readable, so open it before Finish.
		fd, err := unix.Openat(int(x.to.folder.Fd()), x.to.staged, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		top := os.NewFile(uintptr(fd), x.to.staged)
		defer top.Close()
		if err := x.out.Finish(); err != nil {
			return err
		}
		if err := unix.Syncfs(int(top.Fd())); err != nil {
			return err
		}
	}
	stats := x.out.Stats
	x.summary.Files, x.summary.Symlinks, x.summary.HardLinks, x.summary.Bytes = stats.Files, stats.Symlinks, stats.Links, stats.Bytes
	if x.summary.Directories = stats.Folders; !x.alone {
		x.summary.Directories-- // the root
	}
	return nil
}
