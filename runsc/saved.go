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

// savedState is what a machine goes on from, for gVisor. Its pages are read while it runs already, one that it needs before the others, and only slowly until pages is
// closed.
//
// It is read through gVisor's interface for files that are elsewhere, with this process at the other end too: gVisor by itself would read pages in 128 threads, which keep
// the machine, that needs few of them, from its start, and into its mapping of the machine's memory, which takes twice as long as to write them to the file behind that.
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

// savedFiles are the files that a machine goes on from, by the names that gVisor has for them.
type savedFiles struct{ pages <-chan struct{} }

func (savedFiles) Destroy() {}

func (s savedFiles) OpenRead(name string) (stateio.AsyncReader, error) {
	switch name {
	case checkpointfiles.StateFileName:
		return openSaved(stateFD, 1<<20, nil)
	case checkpointfiles.PagesMetadataFileName:
		return openSaved(stateFD+1, 1<<20, nil)
	case checkpointfiles.PagesFileName:
		return openSaved(stateFD+2, 256<<10, s.pages) // who waits for a page waits for so much before it
	}
	return nil, os.ErrNotExist
}

func (savedFiles) OpenWrite(string) (stateio.AsyncWriter, error) { return nil, os.ErrPermission }

// patience is how long what is asked for too early waits: somebody may wait for it, as the clock does for its page.
const patience = 2 * time.Millisecond

// savedFile is one of them. What is read of it is written to the file that it is read for, by the time that it has been asked for.
type savedFile struct {
	content []byte
	atOnce  uint64
	begin   <-chan struct{} // before it is closed, the file is read slowly; nil: it never is
	to      []int           // descriptors
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
	to, err := unix.Dup(int(fd)) // without F_DUPFD_CLOEXEC, which is forbidden by now: so are other programs
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
		case <-time.After(patience):
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

// read writes what begins at a place of the file to a part of another, as much as there is.
func (f *savedFile) read(at int64, to int, part memmap.FileRange) (done uint64, err error) {
	if at < 0 || at > int64(len(f.content)) {
		return 0, io.EOF
	}
	b := f.content[at:]
	for b = b[:min(part.Length(), uint64(len(b)))]; done < uint64(len(b)); {
		n, err := unix.Pwrite(to, b[done:], int64(part.Start+done))
		if err != nil && err != unix.EINTR {
			return done, err // EFAULT where the disk can't be read
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
