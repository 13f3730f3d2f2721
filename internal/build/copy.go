package build

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/moby/patternmatcher"
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/disk/view"
	"github.com/pyro-mcp/pyro/internal/environment/oci"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// copying is one COPY or ADD instruction, with its variables expanded.
type copying struct {
	from     source
	paths    []string // Paths or patterns in from.
	texts    []text   // Files whose content is in the Dockerfile.
	to       string   // Destination, as written.
	chown    string   // "user:group", or empty.
	chmod    string   // Octal, or empty.
	excluded []string // Patterns, relative to each path.
	archives bool     // Reject archives, which ADD would unpack.
}

// text is a file whose content is in the Dockerfile.
type text struct{ name, content string }

// collect returns the entries that a copy adds. workdir is the folder of relative destinations.
func (c *copying) collect(ctx context.Context, lower view.Tree, workdir string) (*addition, error) {
	a := newAddition(lower)
	who, err := c.owner(lower)
	if err != nil {
		return nil, err
	}
	if who != nil {
		a.parents = *who
	}
	mode, err := c.mode()
	if err != nil {
		return nil, err
	}
	into, err := a.destination(c.to, workdir)
	if err != nil {
		return nil, err
	}
	found, err := c.found()
	if err != nil {
		return nil, err
	}
	into.folder = into.folder || len(found)+len(c.texts) > 1
	for _, name := range found {
		if err := c.add(ctx, a, name, into, who, mode); err != nil {
			return nil, err
		}
	}
	for _, t := range c.texts {
		e := &added{header: tar.Header{Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(t.content)), ModTime: epoch}, text: &t.content}
		e.own(who, mode)
		if err := a.file(into.file(t.name), e); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// epoch is the time of files without a time of their own. It is constant, so that equal steps give
// equal layers.
var epoch = time.Unix(0, 0)

// found returns the paths to copy.
func (c *copying) found() ([]string, error) {
	var all []string
	for _, pattern := range c.paths {
		names, err := c.from.find(pattern)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			return nil, fault.Newf(fault.NotFound, "no file matches %s", pattern)
		}
		all = append(all, names...)
	}
	return all, nil
}

// add adds a file, or the content of a folder.
func (c *copying) add(ctx context.Context, a *addition, name string, into destination, who *owner, mode *int64) error {
	at, err := resolve(c.from.tree, name, true)
	if err != nil {
		return err
	}
	missing := fault.Newf(fault.NotFound, "%s does not exist", name)
	if hidden, err := c.from.hidden(at); err != nil {
		return err
	} else if hidden && !c.from.ignored.Exclusions() {
		return missing.WithHint("it is in .dockerignore")
	}
	info, err := c.from.tree.Lstat(at)
	if errors.Is(err, fs.ErrNotExist) {
		return missing
	} else if err != nil {
		return err
	}
	if c.archives && info.Mode().IsRegular() {
		if is, err := isArchive(c.from.tree, at); err != nil {
			return err
		} else if is {
			return unsupported("ADD of an archive: COPY it, and unpack it with RUN tar")
		}
	}
	exclude, err := patternmatcher.New(c.excluded)
	if err != nil {
		return fault.Newf(fault.Invalid, "--exclude: %w", err)
	}
	own := path.Base(name) // even if it is a link
	return c.from.walk(ctx, at, func(name, relative string, info fs.FileInfo) error {
		target, excludable := path.Join(into.path, relative), relative
		if relative == "." && !info.IsDir() {
			target, excludable = into.file(own), own
		}
		if excludable != "." && len(c.excluded) > 0 {
			if skip, err := exclude.MatchesOrParentMatches(excludable); err != nil || skip {
				return err
			}
		}
		e, err := c.entry(name, info, who, mode)
		if err != nil || e == nil {
			return err
		}
		if info.IsDir() {
			return a.folder(target, e, relative == ".")
		}
		return a.file(target, e)
	})
}

// isArchive reports whether ADD would unpack a file. As in Docker, the content decides, not the
// name. It treats all files that xz has compressed as archives.
func isArchive(tree view.Tree, name string) (bool, error) {
	f, err := tree.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	start, _ := in.Peek(6) // a file can be shorter
	if bytes.HasPrefix(start, []byte("\xfd7zXZ\x00")) {
		return true, nil
	}
	var packed io.Reader = in
	if bytes.HasPrefix(start, []byte("BZh")) {
		packed = bzip2.NewReader(in)
	}
	unpacked, err := oci.Unpack(packed)
	if err != nil {
		return false, nil
	}
	defer unpacked.Close()
	_, err = tar.NewReader(unpacked).Next()
	return err == nil, nil
}

// entry describes a file of the source. It returns nil for a socket.
func (c *copying) entry(name string, info fs.FileInfo, who *owner, mode *int64) (*added, error) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	e := &added{tree: c.from.tree, path: name, header: tar.Header{Mode: int64(st.Mode & 0o7777), ModTime: info.ModTime().Truncate(time.Second)}}
	if c.from.owned {
		e.header.Uid, e.header.Gid = int(st.Uid), int(st.Gid)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		e.header.Typeflag, e.header.Size = tar.TypeReg, info.Size()
	case unix.S_IFDIR:
		e.header.Typeflag = tar.TypeDir
	case unix.S_IFLNK:
		target, err := c.from.tree.ReadLink(name)
		if err != nil {
			return nil, err
		}
		e.header.Typeflag, e.header.Linkname = tar.TypeSymlink, target
	case unix.S_IFSOCK:
		return nil, nil
	default:
		return nil, fault.Newf(fault.Unsupported, "%s is not a file, a folder or a link", name)
	}
	attributes, err := c.from.tree.Xattrs(name)
	if err != nil {
		return nil, err
	}
	for key, value := range attributes {
		if key == "security.capability" || strings.HasPrefix(key, "user.") {
			if e.header.PAXRecords == nil {
				e.header.PAXRecords = map[string]string{}
			}
			e.header.PAXRecords["SCHILY.xattr."+key] = value
		}
	}
	e.own(who, mode)
	return e, nil
}

// own sets the owner and the mode, unless they are nil.
func (e *added) own(who *owner, mode *int64) {
	if who != nil {
		e.header.Uid, e.header.Gid = who.uid, who.gid
	}
	if mode != nil && e.header.Typeflag != tar.TypeSymlink {
		e.header.Mode = *mode
	}
}

func (c *copying) owner(lower view.Tree) (*owner, error) {
	if c.chown == "" {
		return nil, nil
	}
	who, err := ownerOf(lower, c.chown)
	return &who, fault.Wrap(err, "find the owner", c.chown)
}

func (c *copying) mode() (*int64, error) {
	if c.chmod == "" {
		return nil, nil
	}
	mode, err := strconv.ParseUint(c.chmod, 8, 12)
	if err != nil {
		return nil, unsupported("--chmod=%s: the mode must be octal", c.chmod)
	}
	value := int64(mode)
	return &value, nil
}
