package qemu

import (
	"os"
	"slices"

	"github.com/pyro-mcp/pyro/internal/disk"
)

// opener opens the files that a QEMU process inherits. The field err contains the first error. The
// method close closes all files.
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

// create creates a file that QEMU's user can reopen through its descriptor. The permissions of the
// folder stop other users.
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

// make creates a file that only pyro's user can open.
func (o *opener) make(path string) *os.File {
	return o.keep(os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600))
}

func (o *opener) unnamed(dir string) *os.File {
	return o.keep(disk.Unnamed(dir))
}

// release makes the caller responsible for closing the file.
func (o *opener) release(f *os.File) *os.File {
	o.files = slices.DeleteFunc(o.files, func(other *os.File) bool { return other == f })
	return f
}

func (o *opener) close() {
	for _, f := range o.files {
		f.Close()
	}
}
