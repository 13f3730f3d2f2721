package archive

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/klauspost/compress/gzip"

	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// packed is a source in a tar archive.
type packed struct {
	file       *os.File
	compressed bool
	info       fs.FileInfo // of the file as it was opened
}

// Close closes the archive.
func (p *packed) Close() error { return p.file.Close() }

// WriteTar reads the archive twice: first to know whether an entry is hostile, and which of them are left in the end, for later ones replace earlier
// ones of the same name; then for the content of those.
func (p *packed) WriteTar(ctx context.Context, w io.Writer, policy Policy) (Summary, error) {
	policy.Limits = policy.Limits.orDefaults()
	entries, err := p.entries(ctx, policy.Limits)
	if err != nil {
		return Summary{}, err
	}
	found, err := survey(entries, policy, p.info.ModTime())
	if err != nil {
		return Summary{}, fault.Wrap(err, opRead, p.file.Name())
	}
	out := newStream(w)
	summary, err := found.writeFolders(out)
	if err != nil {
		return Summary{}, err
	}
	if entries, err = p.entries(ctx, policy.Limits); err != nil {
		return Summary{}, err
	}
	c := &copying{p.file.Name(), entries, out, summary}
	if err := c.files(found.files); err != nil {
		return Summary{}, err
	}
	if now, err := p.file.Stat(); err != nil || now.Size() != p.info.Size() || !now.ModTime().Equal(p.info.ModTime()) {
		return Summary{}, fault.Wrap(errors.Join(errChanged, err), opRead, p.file.Name())
	}
	return c.summary, out.close()
}

// entries reads the archive from its beginning.
func (p *packed) entries(ctx context.Context, limits Limits) (*tree.Reader, error) {
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return nil, fault.Wrap(cause(err), opRead, p.file.Name())
	}
	if !p.compressed {
		return tree.NewReader(ctx, p.file, limits.stream()), nil
	}
	unpacked, err := gzip.NewReader(bufio.NewReaderSize(p.file, 256<<10))
	if err != nil {
		return nil, fault.Wrap(damaged(err), opRead, p.file.Name())
	}
	return tree.NewReader(ctx, unpacking{unpacked}, limits.stream()), nil
}

// unpacking undoes the compression.
type unpacking struct{ in *gzip.Reader }

func (u unpacking) Read(b []byte) (int, error) {
	n, err := u.in.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = damaged(err)
	}
	return n, err
}

// damaged gives errors of the compression a kind; those of the file have one.
func damaged(err error) error {
	switch of := (*fs.PathError)(nil); {
	case errors.As(err, &of):
		return of.Err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		err = errors.New("it is cut off")
	case errors.Is(err, gzip.ErrHeader):
		err = errors.New("something that is not compressed with gzip follows, or begins it")
	}
	return &fault.Error{Kind: fault.Invalid, Err: err}
}

// copying is the second time that an archive is read.
type copying struct {
	path    string
	in      *tree.Reader
	out     *stream
	summary Summary
}

// files writes those that have a name left, in the order of their entries.
func (c *copying) files(files []*item) error {
	for {
		header, err := c.in.Next()
		switch {
		case errors.Is(err, io.EOF) && len(files) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return fault.Wrap(errChanged, opRead, c.path)
		case err != nil:
			return fault.Wrap(err, opRead, c.path)
		case header.Typeflag != tar.TypeReg:
			continue
		case len(files) == 0 || files[0].size != header.Size:
			return fault.Wrap(errChanged, opRead, c.path)
		}
		if err := c.file(files[0]); err != nil {
			return err
		}
		files = files[1:]
	}
}

func (c *copying) file(file *item) error {
	for i, node := range file.names {
		if i > 0 {
			c.summary.HardLinks++
			if err := c.out.header(tar.TypeLink, node.path(), file.names[0].path(), file.mode, file.mtime, 0); err != nil {
				return err
			}
			continue
		}
		c.summary.Files++
		c.summary.Bytes += file.size
		if err := c.out.header(tar.TypeReg, node.path(), "", file.mode, file.mtime, file.size); err != nil {
			return err
		}
		if err := c.content(); err != nil {
			return err
		}
	}
	return nil
}

func (c *copying) content() error {
	for {
		space, err := c.out.space()
		if err != nil {
			return err
		}
		n, err := c.in.Read(space)
		if _, err := c.out.tar.Write(space[:n]); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fault.Wrap(err, opRead, c.path)
		}
	}
}
