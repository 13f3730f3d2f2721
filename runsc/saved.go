package main

import (
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/sentry/memmap"
	"gvisor.dev/gvisor/pkg/sentry/state/checkpointfiles"
	"gvisor.dev/gvisor/pkg/sentry/state/stateio"
	"gvisor.dev/gvisor/pkg/sentry/state/stateipc"
	"gvisor.dev/gvisor/pkg/unet"
	"gvisor.dev/gvisor/pkg/urpc"
	"gvisor.dev/gvisor/runsc/boot"
)

// savedState returns the options for gVisor to restore a saved machine. The pages are read while
// the machine runs. gVisor first reads the pages that tasks need. savedState limits the rate of
// reads until the channel pages is closed.
//
// gVisor reads the files through its interface for remote files, and this process serves them.
// Otherwise gVisor would read the pages in 128 threads, which delay the start of the machine. It
// would also write to its mapping of the memory file. That takes twice as long as writing to the
// file.
func savedState(pages <-chan struct{}) (*boot.RestoreOpts, error) {
	files, err := stateipc.NewAsyncFileServer(savedFiles{pages})
	if err != nil {
		return nil, err
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	socket, err := unet.NewSocket(ends[0])
	if err != nil {
		return nil, err
	}
	server := urpc.NewServer()
	server.Register(files)
	server.StartHandling(socket)
	return &boot.RestoreOpts{
		FilePayload: urpc.FilePayload{Files: []*os.File{os.NewFile(uintptr(ends[1]), "saved")}}, UseCheckpointGofer: true, Background: true,
	}, nil
}

// savedFiles opens the files of a saved machine by the names that gVisor uses.
type savedFiles struct{ pages <-chan struct{} }

func (savedFiles) Destroy() {}

func (s savedFiles) OpenRead(name string) (stateio.AsyncReader, error) {
	switch name {
	case checkpointfiles.StateFileName:
		return openSaved(stateFD, 1<<20, nil)
	case checkpointfiles.PagesMetadataFileName:
		return openSaved(stateFD+1, 1<<20, nil)
	case checkpointfiles.PagesFileName:
		return openSaved(stateFD+2, 256<<10, s.pages) // a task that needs a page waits for at most one read of this size
	}
	return nil, os.ErrNotExist
}

func (savedFiles) OpenWrite(string) (stateio.AsyncWriter, error) { return nil, os.ErrPermission }

// slowPause delays a read while the machine starts. It must be short, because a task might need the
// page, for example for the clock.
const slowPause = 2 * time.Millisecond

// savedFile is a file of a saved machine. It writes the data of a read directly to the memory file,
// before it replies.
type savedFile struct {
	content []byte
	atOnce  uint64
	begin   <-chan struct{} // reads are slow until this channel is closed; if it is nil, they are never slow
	to      []int           // descriptors of destination files
	done    []stateio.Completion
}

func openSaved(fd int, atOnce uint64, begin <-chan struct{}) (*savedFile, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	f := &savedFile{atOnce: atOnce, begin: begin}
	if stat.Size > 0 {
		var err error
		if f.content, err = unix.Mmap(fd, 0, int(stat.Size), unix.PROT_READ, unix.MAP_SHARED); err != nil {
			return nil, os.NewSyscallError("mmap", err)
		}
	}
	return f, unix.Close(fd)
}

func (f *savedFile) Close() error {
	for _, fd := range f.to {
		unix.Close(fd)
	}
	if f.content == nil {
		return nil
	}
	return unix.Munmap(f.content)
}

func (f *savedFile) MaxReadBytes() uint64            { return f.atOnce }
func (f *savedFile) MaxRanges() int                  { return 16 }
func (f *savedFile) MaxParallel() int                { return 1 }
func (f *savedFile) NeedRegisterDestinationFD() bool { return true }

func (f *savedFile) RegisterDestinationFD(fd int32, _ uint64, _ []stateio.ClientFileRangeSetting) (stateio.DestinationFile, error) {
	to, err := unix.Dup(int(fd)) // the filter forbids F_DUPFD_CLOEXEC, and also exec
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	f.to = append(f.to, to)
	return to, nil
}

func (f *savedFile) AddRead(id int, at int64, to stateio.DestinationFile, part memmap.FileRange, _ []byte) {
	f.AddReadv(id, at, part.Length(), to, []memmap.FileRange{part}, nil)
}

func (f *savedFile) AddReadv(id int, at int64, _ uint64, to stateio.DestinationFile, parts []memmap.FileRange, _ []unix.Iovec) {
	if f.begin != nil {
		select {
		case <-f.begin:
		case <-time.After(slowPause):
		}
	}
	c := stateio.Completion{ID: id}
	for _, part := range parts {
		n, err := f.read(at+int64(c.N), to.(int), part)
		c.N += n
		if c.Err = err; err != nil {
			break
		}
	}
	f.done = append(f.done, c)
}

// read copies bytes at an offset of the file to a part of another file. The parameter to is the
// descriptor of that file.
func (f *savedFile) read(at int64, to int, part memmap.FileRange) (done uint64, err error) {
	if at < 0 || at > int64(len(f.content)) {
		return 0, io.EOF
	}
	b := f.content[at:]
	for b = b[:min(part.Length(), uint64(len(b)))]; done < uint64(len(b)); {
		n, err := unix.Pwrite(to, b[done:], int64(part.Start+done))
		if err != nil && err != unix.EINTR {
			return done, err // EFAULT if the host can't read the saved file from its disk
		}
		done += uint64(max(n, 0))
	}
	if done < part.Length() {
		err = io.EOF
	}
	return done, err
}

func (f *savedFile) Wait(cs []stateio.Completion, _ int) ([]stateio.Completion, error) {
	cs = append(cs, f.done...)
	f.done = f.done[:0]
	return cs, nil
}
