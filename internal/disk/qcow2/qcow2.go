// Package qcow2 makes empty layers of disks, and reads disks that are layers over one another, without QEMU.
//
// A layer's header names no file that it lies over: what a disk's layers are is told by whoever opens it. Whoever wrote a layer is not trusted, since it is the
// disk of a guest, which may have taken QEMU over. So every number in it is checked before it is used, memory is bounded whatever it claims, and nothing in it
// leads to another file. What pyro's layers never have is refused: compression, encryption, other files, snapshots inside.
//
// The facts are those of docs/interop/qcow2.txt of QEMU.
package qcow2

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Disk is a disk in layers, to be read. It is safe for use by several goroutines. The layers must not change while it is in use.
type Disk struct {
	raw     *os.File // the lowest layer; nil for none
	rawSize int64
	layers  []layer // the topmost first
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

// Open reads the headers of a disk's layers, from the lowest to the topmost. The lowest one of all may be a raw image, nil for none: it is never guessed what
// a file is, since what is in it was written by guests. The disk is as large as its topmost layer; what a lower one does not reach is zeros. The files stay the
// caller's. Beside errors of the files it gives ErrCorrupt and ErrUnsupported.
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

// OpenFiles is Open of files by their paths; raw is "" for none. They are closed by Close.
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

// Close closes what OpenFiles opened. Idempotent.
func (d *Disk) Close() error {
	opened := d.opened
	d.opened = nil
	return closeAll(opened)
}

// Size is the disk's, in bytes.
func (d *Disk) Size() int64 { return d.size }

// run is a stretch of the disk that is in one place, or nowhere.
type run struct {
	file   *os.File // nil for zeros
	at     int64    // in the file
	length int64
}

// find gives the run that an offset is in, from there on, and no longer than length.
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

// ReadAt reads as [io.ReaderAt] does. What a file lacks at the end of its last cluster is zeros, as for QEMU.
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

// Extents calls f for each stretch of the disk that may be something else than zeros, in order, those that touch as one. It ends with the first error.
func (d *Disk) Extents(f func(offset, length int64) error) error {
	var from, to int64 // what has been found and not been told
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
				if err := tell(f, from, to); err != nil {
					return err
				}
				from = at
			}
			to = at + r.length
		}
		at += r.length
	}
	return tell(f, from, to)
}

func tell(f func(offset, length int64) error, from, to int64) error {
	if from == to {
		return nil
	}
	return f(from, to-from)
}

// rawRun cuts a run of the raw image where a hole begins, or where one ends.
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
