package qemu

import (
	"os"
	"slices"

	"github.com/pyro-mcp/pyro/internal/disk"
)

// opener opens the files that a QEMU is to inherit. The first error sticks; close closes what was opened.
type opener struct {
	files []*os.File
	err   error
}

func (o *opener) keep(f *os.File, err error) *os.File {
	if err != nil {
		if o.err == nil {
			o.err = err
		}
		return nil
	}
	o.files = append(o.files, f)
	return f
}

func (o *opener) open(path string, flags int) *os.File {
	return o.keep(os.OpenFile(path, flags, 0))
}

// create makes a file that QEMU's user may open again by its number. Its folder keeps everybody else away.
func (o *opener) create(path string, size int64) *os.File {
	f := o.make(path)
	if o.err == nil {
		o.err = f.Truncate(size)
	}
	if o.err == nil {
		o.err = f.Chmod(0o666)
	}
	return f
}

// make makes a file that is pyro's alone.
func (o *opener) make(path string) *os.File {
	return o.keep(os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600))
}

func (o *opener) unnamed(dir string) *os.File {
	return o.keep(disk.Unnamed(dir))
}

// release gives a file to somebody else to close.
func (o *opener) release(f *os.File) *os.File {
	o.files = slices.DeleteFunc(o.files, func(other *os.File) bool { return other == f })
	return f
}

func (o *opener) close() {
	for _, f := range o.files {
		f.Close()
	}
}
