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

// maxBytes is MaxBytes, less in tests.
var maxBytes int64 = MaxBytes

// flattened is what remains of all layers' entries.
type flattened struct {
	names map[place][]string
	bytes int64 // roughly what the file system takes
}

// flatten reads what is in the layers, the lowest first, and finds out what is left in the end.
func flatten(ctx context.Context, layers []string) (*flattened, error) {
	tree, sizes := newTree(), map[place]int64{}
	err := eachEntry(ctx, layers, func(at place, header *tar.Header, _ io.Reader) error {
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
	flat := &flattened{names: tree.places()}
	for at := range flat.names {
		// Each size is below maxBytes, so the sum of a million stays below 1<<63.
		flat.bytes += sizes[at] + perEntry
	}
	if flat.bytes > maxBytes {
		return nil, tooLarge()
	}
	return flat, nil
}

// WriteTar writes the image's flattened file system to out as an archive.
func (i *Image) WriteTar(ctx context.Context, out io.Writer) error {
	archive := tar.NewWriter(out)
	err := eachEntry(ctx, i.layers, func(at place, header *tar.Header, content io.Reader) error {
		for n, name := range i.flat.names[at] {
			entry := *header
			entry.Name, entry.Format = name, tar.FormatPAX
			switch {
			case header.Typeflag == tar.TypeReg && n > 0:
				entry = tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: i.flat.names[at][0], Format: tar.FormatPAX}
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

// eachEntry calls visit for every entry of every layer, within the bounds of an image.
func eachEntry(ctx context.Context, layers []string, visit func(place, *tar.Header, io.Reader) error) error {
	left, entries := maxBytes, 0
	for l, path := range layers {
		if err := eachOf(ctx, path, &left, func(header *tar.Header, content io.Reader) error {
			if entries++; entries > MaxEntries {
				return fault.Newf(fault.Exhausted, "the image holds more than %d files", MaxEntries)
			}
			return visit(place{l, entries}, header, content)
		}); err != nil {
			return err
		}
	}
	return nil
}

func eachOf(ctx context.Context, path string, left *int64, visit func(*tar.Header, io.Reader) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	unpacked, err := unpack(file)
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
			return corrupt(header.Name, fmt.Errorf("unknown kind of entry %q", header.Typeflag))
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

// maxWindow bounds what a zstd layer may make its reader allocate; it is the most that zstd itself accepts unasked.
const maxWindow = 128 << 20

// unpack undoes a layer's compression, which is told by its first bytes as in every implementation, since media types are not to be relied on.
func unpack(file io.Reader) (io.ReadCloser, error) {
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

// boundedReader ends what unpacks to more than an image may, and a wait that nobody wants any more.
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
