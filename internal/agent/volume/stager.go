package volume

import (
	"io"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/sparse"
)

// stager writes file content. If every file must be flushed, stager flushes several files
// concurrently, because disks merge concurrent flushes.
type stager struct {
	single bool
	buffer []byte

	flushes   sync.WaitGroup
	semaphore chan struct{}
	mu        sync.Mutex
	failed    error
}

// flushesAtOnce is the maximum number of concurrent flushes.
const flushesAtOnce = 16

func newStager(kind FSKind) *stager {
	return &stager{single: kind == PassthroughFS, buffer: make([]byte, 256<<10), semaphore: make(chan struct{}, flushesAtOnce)}
}

// write writes a file of size bytes and returns the number of bytes written. times are the times of
// access and modification; nil means now.
func (s *stager) write(dir int, name string, mode uint32, times []unix.Timespec, size int64, content io.Reader) (written int64, err error) {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return 0, err
	}
	to := sparseFile{fd: fd}
	for written < size && err == nil {
		var n int
		if n, err = io.ReadFull(content, s.buffer[:min(size-written, int64(len(s.buffer)))]); err != nil {
			err = unreadable(err)
			break
		}
		err = to.write(s.buffer[:n], written)
		written += int64(n)
	}
	if err == nil {
		err = to.finish(size)
	}
	if err == nil {
		err = unix.Fchmod(fd, mode)
	}
	if err == nil && times != nil {
		err = setTimes(fd, times)
	}
	if err != nil || !s.single {
		unix.Close(fd)
		return written, err
	}
	s.semaphore <- struct{}{}
	s.flushes.Go(func() {
		if err := unix.Fsync(fd); err != nil {
			s.mu.Lock()
			s.failed = err
			s.mu.Unlock()
		}
		unix.Close(fd)
		<-s.semaphore
	})
	return written, nil
}

// setTimes sets the times of an open file. Unlike with a path, a kernel behind another one does not
// look up the file again.
func setTimes(fd int, times []unix.Timespec) error {
	if _, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&times[0])), 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// wait waits for all flushes.
func (s *stager) wait() error {
	s.flushes.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// sparseFile is a new file that gets its content in order, without the holes.
type sparseFile struct {
	fd  int
	end int64 // the current size
}

func (f *sparseFile) write(b []byte, at int64) error {
	return sparse.Each(b, at, func(b []byte, at int64) error {
		for len(b) > 0 {
			n, err := unix.Pwrite(f.fd, b, at)
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				return err
			}
			b, at = b[n:], at+int64(n)
		}
		f.end = at
		return nil
	})
}

// finish extends the file to size, if the content ends with a hole.
func (f *sparseFile) finish(size int64) error {
	if f.end == size {
		return nil
	}
	return unix.Ftruncate(f.fd, size)
}
