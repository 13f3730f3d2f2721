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

// Options are those of an export.
type Options struct {
	Force  bool // what is at the target is replaced as a whole
	Limits Limits
}

// Extract makes target what a tar stream from a machine holds: one file, symbolic link or folder, which is the stream's first entry, with what is in it
// in the entries that follow, each after the folder that it is in. The first entry's name is one word, or "." where a folder has none; target takes its
// place. The stream is read to its end. The summary does not count the first entry where that is a folder.
//
// All or nothing: it is put together beside target under a name of its own, a folder closed to others, is flushed, and then gets target's name. On an
// error, and when ctx ends, what was at target is there as before and nothing else is left. With Force the two change places, and the old one is removed
// after that; where only that fails, the export is in place, and the error says where the rest of the old one is. A process that is killed meanwhile
// leaves what it had put together, or the old one, in ".pyro-export-…" beside target.
//
// All that it makes is the caller's. Modes are kept but for set-id and sticky bits, and so are times of modification. Symbolic links are kept as they
// are, wherever they lead, and never followed; Summary.OutwardLinks says how many can lead out of the export. Hard links have to lead to files before
// them in the stream.
//
// Kinds: Exists where there is something at target; NotFound where the folder that it would be in is missing; Invalid for a stream that is cut, damaged
// or hostile, one with devices or FIFOs among them; Exhausted for more than the limits, or than the disk has room for. Errors of r come back as they
// are, wrapped.
func Extract(ctx context.Context, r io.Reader, target string, options Options) (Summary, error) {
	to, err := destine(target)
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
		err = to.place(options.Force)
	}
	if err != nil {
		err = fault.Wrap(err, opExport, target)
		if left := to.clear(ctx); left != nil {
			err = errors.Join(err, left)
		}
		return Summary{}, err
	}
	flushed := to.flush()
	if err := to.clear(ctx); err != nil {
		return x.summary, fault.Wrap(err, "the export is in place, but what was there before can't be removed from", to.path(to.staged))
	}
	return x.summary, flushed
}

// export is what is put together.
type export struct {
	ctx     context.Context
	in      io.Reader
	to      *destination
	out     *tree.Writer
	tally   tally
	text    int    // bytes of names and links
	top     string // the first entry's name; "" for "."
	alone   bool   // the first entry is no folder
	summary Summary
}

// stage reads the stream and writes what is in it to the disk, under the destination's staged name.
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

// first adds the stream's first entry.
func (x *export) first(entries *tree.Reader) error {
	header, err := entries.Next()
	if errors.Is(err, io.EOF) {
		return refused("there is nothing in the stream")
	}
	if err != nil {
		return err
	}
	parts, err := cleaned(header.Name)
	if err != nil {
		return inEntry(header.Name, err)
	}
	x.alone = header.Typeflag != tar.TypeDir
	switch {
	case len(parts) > 1, len(parts) == 0 && x.alone:
		return inEntry(header.Name, refused("it can't be the first, whose name is one word"))
	case len(parts) == 1:
		x.top = parts[0]
	}
	if header.Typeflag == tar.TypeLink {
		return inEntry(header.Name, refused("it is a hard link out of the export"))
	}
	x.out.Sync = x.alone
	if err := x.write(header, x.to.staged, entries); err != nil {
		return inEntry(strings.Join(parts, "/"), err)
	}
	return nil
}

// add adds an entry in the folder that was the first.
func (x *export) add(header *tar.Header, content io.Reader) error {
	if x.alone {
		return refused("it is in no folder of the export")
	}
	name, err := x.staged(header.Name)
	if err != nil {
		return err
	}
	return x.write(header, name, content)
}

// staged gives the name under which what has a name in the stream is written.
func (x *export) staged(name string) (string, error) {
	parts, err := cleaned(name)
	if err != nil {
		return "", err
	}
	if x.top != "" {
		if len(parts) == 0 || parts[0] != x.top {
			return "", refused("it is not in %q, the first", ending(x.top))
		}
		parts = parts[1:]
	}
	if len(parts) == 0 {
		return "", refused("it is there a second time")
	}
	return x.to.staged + "/" + strings.Join(parts, "/"), nil
}

// write writes an entry under another name.
func (x *export) write(header *tar.Header, name string, content io.Reader) error {
	size := int64(0)
	switch header.Typeflag {
	case tar.TypeReg:
		size = header.Size
	case tar.TypeDir:
	case tar.TypeSymlink:
		if err := checkText(header.Linkname); err != nil {
			return err
		}
		if x.alone || outward(strings.Count(name, "/")-1, header.Linkname) {
			x.summary.OutwardLinks++
		}
	case tar.TypeLink:
		target, err := x.staged(header.Linkname)
		if err != nil {
			return refused("it is a hard link to %q: %w", ending(header.Linkname), err)
		}
		header.Linkname = target
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return refused("it is a device or a FIFO")
	default:
		return refused("this kind of entry, %q, is not known", header.Typeflag)
	}
	if err := x.tally.count(size); err != nil {
		return err
	}
	if x.text += len(name) + len(header.Linkname); x.text > maxText {
		return tooMuchText()
	}
	header.Name, header.Mode = name, header.Mode&0o777
	return x.written(x.out.Add(header, content))
}

// written gives an error of the writer the name that the stream has for what it was writing.
func (x *export) written(err error) error {
	of := (*fault.Error)(nil)
	if errors.As(err, &of) {
		if rest, ok := strings.CutPrefix(of.Subject, x.to.staged); ok {
			return inEntry(cmp.Or(x.top, ".")+rest, of.Err)
		}
	}
	return err
}

// outward tells whether a link in a folder so deep in the export can lead out of it: by its text, or by its climbing behind something that may be a link.
func outward(depth int, text string) bool {
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

// finish gives folders their modes and flushes all.
func (x *export) finish() error {
	if x.alone {
		if err := x.out.Finish(); err != nil {
			return err
		}
	} else {
		// Afterwards the folder may be one that can't be opened.
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
		x.summary.Directories-- // the top
	}
	return nil
}
