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
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// tarFile is a Source that reads a tar archive.
type tarFile struct {
	file       *os.File
	compressed bool
	info       fs.FileInfo // state of the file when it was opened
}

// Close closes the archive.
func (p *tarFile) Close() error { return p.file.Close() }

// WriteTar reads the archive twice. The first pass checks all entries and determines the final
// tree, because later entries replace earlier entries of the same name. The second pass copies the
// content of the files in that tree.
func (p *tarFile) WriteTar(ctx context.Context, w io.Writer, policy Policy) (Summary, error) {
	policy.Limits = policy.Limits.orDefaults()
	entries, err := p.entries(ctx, policy.Limits)
	if err != nil {
		return Summary{}, err
	}
	found, err := survey(entries, policy, p.info.ModTime())
	if err != nil {
		return Summary{}, fault.Wrap(err, opRead, p.file.Name())
	}
	out := newStream(w, policy.Below)
	summary, err := found.writeFolders(out)
	if err != nil {
		return Summary{}, err
	}
	if entries, err = p.entries(ctx, policy.Limits); err != nil {
		return Summary{}, err
	}
	c := &copyPass{p.file.Name(), entries, out, summary}
	if err := c.files(found.files); err != nil {
		return Summary{}, err
	}
	if now, err := p.file.Stat(); err != nil || now.Size() != p.info.Size() || !now.ModTime().Equal(p.info.ModTime()) {
		return Summary{}, fault.Wrap(errors.Join(errChanged, err), opRead, p.file.Name())
	}
	return c.summary, out.close()
}

// entries returns a reader that starts at the beginning of the archive.
func (p *tarFile) entries(ctx context.Context, limits Limits) (*tree.Reader, error) {
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
	return tree.NewReader(ctx, gzipReader{unpacked}, limits.stream()), nil
}

// gzipReader decompresses the archive.
type gzipReader struct{ in *gzip.Reader }

func (u gzipReader) Read(b []byte) (int, error) {
	n, err := u.in.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = damaged(err)
	}
	return n, err
}

// damaged adds the kind Invalid to errors of the decompression. It does not add the kind to errors
// from reading the file.
func damaged(err error) error {
	switch of := (*fs.PathError)(nil); {
	case errors.As(err, &of):
		return of.Err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		err = errors.New("the archive is truncated")
	case errors.Is(err, gzip.ErrHeader):
		err = errors.New("it has data that is not compressed with gzip")
	}
	return &fault.Error{Kind: fault.Invalid, Err: err}
}

// copyPass is the second pass over an archive.
type copyPass struct {
	path    string
	in      *tree.Reader
	out     *stream
	summary Summary
}

// files writes the files of the final tree, in the order of their entries in the archive.
func (c *copyPass) files(files []*item) error {
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

func (c *copyPass) file(file *item) error {
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
		if file.holes {
			if err := c.sparse(file, node.path()); err != nil {
				return err
			}
			continue
		}
		if err := c.out.header(tar.TypeReg, node.path(), "", file.mode, file.mtime, file.size); err != nil {
			return err
		}
		if err := c.content(c.in); err != nil {
			return err
		}
	}
	return nil
}

// sparse writes a sparse file.
func (c *copyPass) sparse(file *item, path string) error {
	mtime, err := unix.TimeToTimespec(file.mtime)
	if err != nil {
		return inEntry(path, refused("invalid modification time"))
	}
	if err := c.out.sparse(path, &unix.Stat_t{Mode: file.mode, Mtim: mtime, Size: file.size}, file.data); err != nil {
		return err
	}
	at := int64(0)
	for _, part := range file.data {
		if _, err := io.CopyN(io.Discard, c.in, part.At-at); err != nil {
			return fault.Wrap(err, opRead, c.path)
		}
		data := io.LimitedReader{R: c.in, N: part.Length}
		if err := c.content(&data); err != nil {
			return err
		}
		if data.N > 0 {
			return fault.Wrap(errChanged, opRead, c.path)
		}
		at = part.At + part.Length
	}
	return c.out.pad(file.data.Bytes())
}

// content writes content up to its end.
func (c *copyPass) content(from io.Reader) error {
	for {
		space, err := c.out.space()
		if err != nil {
			return err
		}
		n, err := from.Read(space)
		if _, err := c.out.content.Write(space[:n]); err != nil {
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
