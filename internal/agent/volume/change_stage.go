package volume

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/sparse"
)

// verb is the kind of an operation.
type verb byte

const (
	putFile verb = iota // a file or a symbolic link, because both are staged
	putFolder
	putLink // a hard link
	removePath
	setMode
)

// operation is one entry of a change.
type operation struct {
	verb   verb
	keep   bool // keep the mode and owner of the existing file
	link   bool // a symbolic link, for putFile
	mode   uint32
	slot   uint32 // for putFile
	place  *place // for putFile: the place that contains the file; nil: the file is in the slot
	path   string
	target string        // for putLink
	expect *listing.Mark // the mark that the entry must have; nil if there is no such condition
	absent bool          // true if the path must have no entry
}

// PAX records of an entry; see PUT /volume/change in proto/agent/v1.
const (
	RecordOperation = "PYRO.op"
	RecordExpect    = "PYRO.expect"
	RecordKeep      = "PYRO.keep"
)

// Limits of a change.
const (
	maxOperations = 1_000_000
	maxNames      = 256 << 20 // maximum length of all paths together, in bytes.
	maxAfterEnd   = 1 << 20   // maximum amount of data after the end of the archive, in bytes.
	maxSteps      = 1 << 26   // more than the largest change needs.
)

// stage reads the archive and stages its files.
func (c *change) stage(archive io.Reader) error {
	whole := &eofReader{from: bufio.NewReaderSize(archive, 256<<10)}
	entries := tar.NewReader(whole)
	s := newStager(c.volume.fsKind)
	defer s.wait()
	for {
		h, err := entries.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return unreadable(err)
		}
		if len(c.operations) == maxOperations {
			return Invalid(fmt.Sprintf("a change has at most %d entries", maxOperations))
		}
		op, err := parse(h)
		if err != nil {
			return &OperationError{h.Name, Invalid(err.Error())}
		}
		if c.names += len(op.path) + len(op.target); c.names > maxNames {
			return Invalid(fmt.Sprintf("the paths of a change have at most %d bytes", maxNames))
		}
		switch op.verb {
		case putFile:
			err = c.stageFile(&op, h, entries, s)
		case putFolder:
			_, err = c.place(op.path, op.mode)
		case removePath:
			if p := c.places[op.path]; p != nil {
				p.closed = true
			}
		}
		if errors.As(err, new(unix.Errno)) {
			err = &OperationError{op.path, err}
		}
		if err != nil {
			return err
		}
		c.operations = append(c.operations, op)
	}
	c.parent.leave() // the check looks again
	if err := whole.finish(); err != nil {
		return err
	}
	return s.wait()
}

// eofReader records whether the input has ended. This check is needed because archive/tar also
// accepts an archive without an end mark.
type eofReader struct {
	from  io.Reader
	ended bool
}

func (w *eofReader) Read(p []byte) (int, error) {
	n, err := w.from.Read(p)
	w.ended = w.ended || err == io.EOF
	return n, err
}

// finish reads the rest of the input after the end of an archive. It returns an error if the
// archive has no end mark. The request is complete only if its body ends after the archive.
func (w *eofReader) finish() error {
	if w.ended {
		return unreadable(io.ErrUnexpectedEOF)
	}
	if n, err := io.Copy(io.Discard, io.LimitReader(w, maxAfterEnd+1)); err != nil {
		return unreadable(err)
	} else if n > maxAfterEnd {
		return Invalid("there is data after the archive")
	}
	return nil
}

// unreadable returns the error for an archive that is invalid or could not be received.
func unreadable(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, io.ErrUnexpectedEOF) {
		return Invalid("it is not a complete tar archive: " + err.Error())
	}
	return fmt.Errorf("read the archive: %w", err)
}

// parse returns the operation that an archive entry describes.
func parse(h *tar.Header) (operation, error) {
	op := operation{path: h.Name, mode: uint32(h.Mode) & 0o7777}
	if h.Typeflag == tar.TypeDir {
		op.path = strings.TrimSuffix(op.path, "/")
	}
	switch keep := h.PAXRecords[RecordKeep]; keep {
	case "", "0":
	case "1":
		op.keep = true
	default:
		return op, fmt.Errorf("%s must be 1", RecordKeep)
	}
	switch expect := h.PAXRecords[RecordExpect]; expect {
	case "":
	case "absent":
		op.absent = true
	default:
		m, err := listing.ParseMark(expect)
		if err != nil {
			return op, err
		}
		op.expect = &m
	}
	switch what := h.PAXRecords[RecordOperation]; what {
	case "", "put":
		if err := op.put(h); err != nil {
			return op, err
		}
	case "delete":
		op.verb = removePath
	case "mode":
		op.verb = setMode
	default:
		return op, fmt.Errorf("%s must be put, delete or mode, not %q", RecordOperation, what)
	}
	if op.path == "" {
		return op, errors.New("the workspace itself can't be an entry")
	}
	return op, CheckRelative(op.path)
}

// put parses the entry type of a put operation.
func (op *operation) put(h *tar.Header) error {
	switch h.Typeflag {
	case tar.TypeReg:
		op.verb = putFile
	case tar.TypeSymlink:
		op.verb, op.link = putFile, true
		if h.Linkname == "" || len(h.Linkname) > listing.MaxPath || strings.IndexByte(h.Linkname, 0) >= 0 {
			return errors.New("the target of a symbolic link must have 1 to 4096 bytes without NUL")
		}
	case tar.TypeLink:
		op.verb, op.target = putLink, h.Linkname
		if op.target == "" {
			return errors.New("a hard link must have a target")
		}
		return CheckRelative(op.target)
	case tar.TypeDir:
		op.verb = putFolder
	default:
		return errors.New("only files, directories and links can be put")
	}
	return nil
}

// stageFile stages a file or symbolic link. If its folder is new, it is staged in the folder,
// otherwise in a slot.
func (c *change) stageFile(op *operation, h *tar.Header, content io.Reader, s *stager) error {
	var err error
	if op.slot, err = c.newSlot(); err != nil {
		return err
	}
	above, name := parentOf(op.path)
	in, err := c.place(above, defaultFolderMode)
	if err != nil {
		return err
	}
	if in != nil && !in.closed {
		placed, err := c.openPlace(in)
		if err != nil {
			return err
		}
		if err := c.stageAt(placed, name, op, h, content, s); err != unix.EEXIST {
			op.place = in
			return err
		}
	}
	dir, err := c.slotFolder(op.slot)
	if err != nil {
		return err
	}
	return c.stageAt(dir, stagedName(op.slot), op, h, content, s)
}

// stageAt stages a file or symbolic link under a name. If the name exists, it returns [unix.EEXIST]
// before it reads the content.
func (c *change) stageAt(dir int, name string, op *operation, h *tar.Header, content io.Reader, s *stager) error {
	if err := c.beforeWrite("stage a file"); err != nil {
		return err
	}
	var times []unix.Timespec // nil: now
	if at := (unix.Timespec{Sec: h.ModTime.Unix(), Nsec: int64(h.ModTime.Nanosecond())}); at.Sec != 0 || at.Nsec != 0 {
		times = []unix.Timespec{{Nsec: unix.UTIME_OMIT}, at}
	}
	if !op.link {
		n, err := s.write(dir, name, op.mode, times, h.Size, content)
		c.counts.Bytes += n
		return err
	}
	err := unix.Symlinkat(h.Linkname, dir, name)
	if err == nil && times != nil {
		err = unix.UtimesNanoAt(dir, name, times, unix.AT_SYMLINK_NOFOLLOW)
	}
	return err
}

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
