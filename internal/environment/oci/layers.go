package oci

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// maxBytes equals MaxBytes, except in tests.
var maxBytes int64 = MaxBytes

// flattened is the result of flattening the layers.
type flattened struct {
	nodes map[entryID][]*node
	bytes int64 // approximate size of the file system
}

// flatten reads the entries of all layers, lowest layer first. It determines which entries remain.
func flatten(ctx context.Context, layers []string) (*flattened, error) {
	tree, sizes := newTree(), map[entryID]int64{}
	err := eachEntry(ctx, layers, func(at entryID, header *tar.Header, _ io.Reader) error {
		if err := tree.add(header, at); err != nil {
			return corrupt(header.Name, err)
		}
		if header.Size > 0 {
			sizes[at] = header.Size
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	const perEntry = 4 << 10
	flat := &flattened{nodes: tree.entries()}
	for at := range flat.nodes {
		// Each size is below maxBytes, so the sum of a million sizes is below 1<<63.
		flat.bytes += sizes[at] + perEntry
	}
	if flat.bytes > maxBytes {
		return nil, tooLarge()
	}
	return flat, nil
}

// WriteTar writes the flattened file system to out as a tar archive.
func (i *Image) WriteTar(ctx context.Context, out io.Writer) error {
	archive := tar.NewWriter(out)
	err := eachEntry(ctx, i.layers, func(at entryID, header *tar.Header, content io.Reader) error {
		nodes := i.flat.nodes[at]
		for n, node := range nodes {
			entry := *header
			entry.Name, entry.Format = node.path(), tar.FormatPAX
			switch {
			case header.Typeflag == tar.TypeReg && n > 0:
				entry = tar.Header{Typeflag: tar.TypeLink, Name: entry.Name, Linkname: nodes[0].path(), Format: tar.FormatPAX}
			case header.Typeflag != tar.TypeReg:
				entry.Size = 0
			}
			if err := archive.WriteHeader(&entry); err != nil {
				return corrupt(header.Name, err)
			}
			if entry.Typeflag != tar.TypeReg {
				continue
			}
			if _, err := io.Copy(archive, content); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return archive.Close()
}

// eachEntry calls the function visit for every entry of every layer. It enforces the limits.
func eachEntry(ctx context.Context, layers []string, visit func(entryID, *tar.Header, io.Reader) error) error {
	left, entries := maxBytes, 0
	for l, path := range layers {
		if err := eachInLayer(ctx, path, &left, func(header *tar.Header, content io.Reader) error {
			if entries++; entries > MaxEntries {
				return fault.Newf(fault.Exhausted, "the image has more than %d files", MaxEntries)
			}
			return visit(entryID{l, entries}, header, content)
		}); err != nil {
			return err
		}
	}
	return nil
}

func eachInLayer(ctx context.Context, path string, left *int64, visit func(*tar.Header, io.Reader) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	unpacked, err := Unpack(file)
	if err != nil {
		return &fault.Error{Op: "unpack layer", Kind: fault.Corrupt, Err: err}
	}
	defer unpacked.Close()
	archive := tar.NewReader(&boundedReader{ctx, unpacked, left})
	unreadable := func(err error) error {
		if known := (*fault.Error)(nil); ctx.Err() != nil || errors.As(err, &known) {
			return err
		}
		return &fault.Error{Op: "unpack layer", Kind: fault.Corrupt, Err: err}
	}
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return unreadable(err)
		}
		switch header.Typeflag {
		case tar.TypeXGlobalHeader:
			continue
		case tar.TypeGNUSparse, tar.TypeCont:
			header.Typeflag = tar.TypeReg
		case tar.TypeReg, tar.TypeLink, tar.TypeSymlink, tar.TypeChar, tar.TypeBlock, tar.TypeDir, tar.TypeFifo:
		default:
			return corrupt(header.Name, fmt.Errorf("unknown entry type %q", header.Typeflag))
		}
		if header.Size > maxBytes {
			return tooLarge()
		}
		if err := visit(header, readerFunc(func(p []byte) (int, error) {
			n, err := archive.Read(p)
			if err != nil && !errors.Is(err, io.EOF) {
				err = unreadable(err)
			}
			return n, err
		})); err != nil {
			return err
		}
	}
}

func tooLarge() error {
	return fault.Newf(fault.Exhausted, "the image unpacks to more than %d MiB", maxBytes>>20)
}

// maxWindow limits the memory for decompressing a zstd layer, in bytes. It is also the default
// limit of zstd.
const maxWindow = 128 << 20

// Unpack decompresses a layer, or another file that is packed with gzip or zstd. Other files stay
// unchanged. Like other implementations, Unpack detects the format from the first bytes, because
// media types are unreliable. The caller must close the result.
func Unpack(file io.Reader) (io.ReadCloser, error) {
	in := bufio.NewReaderSize(file, 64<<10)
	magic, err := in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(in)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		decoder, err := zstd.NewReader(in, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		return decoder.IOReadCloser(), nil
	}
	return io.NopCloser(in), nil
}

// boundedReader fails if the image exceeds the size limit or ctx is cancelled.
type boundedReader struct {
	ctx  context.Context
	in   io.Reader
	left *int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := b.in.Read(p)
	if *b.left -= int64(n); *b.left < 0 {
		return 0, tooLarge()
	}
	return n, err
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
