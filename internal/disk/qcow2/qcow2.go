// Package qcow2 creates empty disk layers, and reads disks that consist of layers. It does not need
// QEMU.
//
// A layer does not name its backing file. Instead, the caller of Open specifies the layers. Layers
// are not trusted: they are disks of guests, and a guest might have compromised its QEMU process.
// The package checks every number before it uses it, and limits its memory use. Nothing in a layer
// can refer to other files. The package rejects features that pyro's layers never use: compression,
// encryption, external files and internal snapshots.
//
// The format is described in docs/interop/qcow2.txt in QEMU.
package qcow2

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Disk reads a disk that consists of layers. It is safe for concurrent use. The files of the layers
// must not change while a Disk uses them.
type Disk struct {
	raw     *os.File // the lowest layer, or nil
	rawSize int64
	layers  []layer // topmost first
	size    int64
	tables  tables
	opened  []*os.File
}

// layer is a qcow2 file.
type layer struct {
	header
	file *os.File
	name string
}

// Open reads the headers of a disk's layers, which are ordered from lowest to topmost. The lowest
// layer can be a raw image. If there is no raw image, raw is nil. Open does not guess formats,
// because guests wrote the content.
//
// The disk has the size of its topmost layer. If a lower layer is smaller than the disk, its
// missing part reads as zeros. The caller must close the files. Besides errors from the files, Open
// returns ErrCorrupt and ErrUnsupported.
func Open(raw *os.File, layers ...*os.File) (*Disk, error) {
	d := &Disk{raw: raw}
	if raw != nil {
		info, err := raw.Stat()
		if err != nil {
			return nil, err
		}
		d.rawSize = info.Size()
	}
	d.size = d.rawSize
	for _, file := range layers {
		h, err := readHeader(file)
		if err != nil {
			return nil, &fs.PathError{Op: "open layer", Path: file.Name(), Err: err}
		}
		d.layers = append([]layer{{h, file, file.Name()}}, d.layers...)
		d.size = h.size
	}
	return d, nil
}

// OpenFiles is like Open, but opens the files at the given paths. If there is no raw image, raw is
// "". The method Close closes the files.
func OpenFiles(raw string, layers ...string) (_ *Disk, err error) {
	var opened []*os.File
	defer func() {
		if err != nil {
			closeAll(opened)
		}
	}()
	open := func(path string) *os.File {
		if err != nil || path == "" {
			return nil
		}
		var file *os.File
		if file, err = os.Open(path); err == nil {
			opened = append(opened, file)
		}
		return file
	}
	lowest := open(raw)
	var files []*os.File
	for _, path := range layers {
		files = append(files, open(path))
	}
	if err != nil {
		return nil, err
	}
	d, err := Open(lowest, files...)
	if err != nil {
		return nil, err
	}
	d.opened = opened
	return d, nil
}

func closeAll(files []*os.File) (err error) {
	for _, f := range files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// Close closes the files that OpenFiles opened. It is idempotent.
func (d *Disk) Close() error {
	opened := d.opened
	d.opened = nil
	return closeAll(opened)
}

// Size returns the size of the disk in bytes.
func (d *Disk) Size() int64 { return d.size }

// run is a range of the disk whose content is contiguous in one file, or is zero.
type run struct {
	file   *os.File // nil for zeros
	at     int64    // offset in the file
	length int64
}

// find returns the run that starts at offset, cut to at most length bytes.
func (d *Disk) find(offset, length int64) (run, error) {
	for i := range d.layers {
		l := &d.layers[i]
		if offset >= l.size {
			return run{length: length}, nil
		}
		length = min(length, l.size-offset)
		e, n, err := d.entry(l, offset, length)
		if err != nil {
			return run{}, &fs.PathError{Op: "read layer", Path: l.name, Err: err}
		}
		length = n
		switch e {
		case below:
		case zeros:
			return run{length: length}, nil
		default:
			return run{l.file, int64(e) + offset%l.cluster(), length}, nil
		}
	}
	if offset >= d.rawSize {
		return run{length: length}, nil
	}
	return run{d.raw, offset, min(length, d.rawSize-offset)}, nil
}

// ReadAt implements [io.ReaderAt]. If a layer's file ends within its last cluster, the rest of the
// cluster reads as zeros, as in QEMU.
func (d *Disk) ReadAt(p []byte, offset int64) (n int, err error) {
	if offset < 0 {
		return 0, fs.ErrInvalid
	}
	var end error
	if left := max(0, d.size-offset); int64(len(p)) > left {
		p, end = p[:left], io.EOF
	}
	for n < len(p) {
		r, err := d.find(offset+int64(n), int64(len(p)-n))
		if err != nil {
			return n, err
		}
		part := p[n:][:r.length]
		read := 0
		if r.file != nil {
			if read, err = r.file.ReadAt(part, r.at); err != nil && err != io.EOF {
				return n + read, err
			}
		}
		clear(part[read:])
		n += len(part)
	}
	return n, end
}

// Extents calls f for each range of the disk that might contain data, in order. It merges adjacent
// ranges, and stops at the first error.
func (d *Disk) Extents(f func(offset, length int64) error) error {
	var from, to int64 // range that Extents has found but not passed to f yet
	for at := int64(0); at < d.size; {
		r, err := d.find(at, d.size-at)
		if err == nil && r.file != nil && r.file == d.raw {
			r, err = d.rawRun(r)
		}
		if err != nil {
			return err
		}
		if r.file != nil {
			if at != to {
				if err := report(f, from, to); err != nil {
					return err
				}
				from = at
			}
			to = at + r.length
		}
		at += r.length
	}
	return report(f, from, to)
}

func report(f func(offset, length int64) error, from, to int64) error {
	if from == to {
		return nil
	}
	return f(from, to-from)
}

// rawRun shortens a run of the raw image, so that all of it is either data or a hole.
func (d *Disk) rawRun(r run) (run, error) {
	data, err := unix.Seek(int(r.file.Fd()), r.at, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return run{length: r.length}, nil
	}
	if err != nil {
		return r, fmt.Errorf("seek in %s: %w", r.file.Name(), err)
	}
	if data > r.at {
		return run{length: min(r.length, data-r.at)}, nil
	}
	hole, err := unix.Seek(int(r.file.Fd()), r.at, unix.SEEK_HOLE)
	if err != nil {
		return r, fmt.Errorf("seek in %s: %w", r.file.Name(), err)
	}
	r.length = min(r.length, hole-r.at)
	return r, nil
}
