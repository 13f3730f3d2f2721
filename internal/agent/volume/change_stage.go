package volume

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
)

// verb is what an operation does.
type verb byte

const (
	putFile verb = iota // or a symbolic link, which is staged as well
	putFolder
	putLink // a hard link
	removeIt
	setMode
)

// operation is one entry of a change.
type operation struct {
	verb   verb
	keep   bool // the mode and the owner of what is there
	link   bool // of putFile: it is a symbolic link
	mode   uint32
	slot   uint32 // of putFile
	path   string
	target string        // of putLink
	expect *listing.Mark // what must be there; nil: anything
	absent bool          // nothing may be there
}

// The PAX records of an entry.
const (
	recordOp     = "PYRO.op"
	recordExpect = "PYRO.expect"
	recordKeep   = "PYRO.keep"
)

// Bounds of a change.
const (
	maxOperations = 1_000_000
	maxNames      = 256 << 20 // bytes of all paths
	maxAfterEnd   = 1 << 20   // bytes after the end of the archive
	maxSteps      = 1 << 26   // more than operations of so many bytes can come to
)

// stage reads the archive and stages its content.
func (c *change) stage(archive io.Reader) error {
	whole := &whole{from: bufio.NewReaderSize(archive, 256<<10)}
	entries := tar.NewReader(whole)
	s := newStager(c.volume.reach)
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
			return &Refusal{h.Name, Invalid(err.Error())}
		}
		if c.names += len(op.path) + len(op.target); c.names > maxNames {
			return Invalid(fmt.Sprintf("the paths of a change have at most %d bytes", maxNames))
		}
		if op.verb == putFile {
			if err := c.stageFile(&op, h, entries, s); err != nil {
				return err
			}
		}
		c.operations = append(c.operations, op)
	}
	if whole.ended {
		return unreadable(io.ErrUnexpectedEOF)
	}
	// Only a body that comes to its end is one that was sent whole.
	if n, err := io.Copy(io.Discard, io.LimitReader(whole, maxAfterEnd+1)); err != nil {
		return unreadable(err)
	} else if n > maxAfterEnd {
		return Invalid("something follows the archive")
	}
	return s.wait()
}

// whole knows whether it came to its end: an archive has an end of its own before that, which package tar does not insist on.
type whole struct {
	from  io.Reader
	ended bool
}

func (w *whole) Read(p []byte) (int, error) {
	n, err := w.from.Read(p)
	w.ended = w.ended || err == io.EOF
	return n, err
}

// unreadable says that an archive can't be read: for what it is, or because it does not come.
func unreadable(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, io.ErrUnexpectedEOF) {
		return Invalid("it is no whole tar archive: " + err.Error())
	}
	return fmt.Errorf("read the archive: %w", err)
}

// parse gives the operation that an entry stands for.
func parse(h *tar.Header) (operation, error) {
	op := operation{path: h.Name, mode: uint32(h.Mode) & 0o7777}
	if h.Typeflag == tar.TypeDir {
		op.path = strings.TrimSuffix(op.path, "/")
	}
	switch keep := h.PAXRecords[recordKeep]; keep {
	case "", "0":
	case "1":
		op.keep = true
	default:
		return op, fmt.Errorf("%s must be 1", recordKeep)
	}
	switch expect := h.PAXRecords[recordExpect]; expect {
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
	switch what := h.PAXRecords[recordOp]; what {
	case "", "put":
		if err := op.put(h); err != nil {
			return op, err
		}
	case "delete":
		op.verb = removeIt
	case "mode":
		op.verb = setMode
	default:
		return op, fmt.Errorf("%s must be put, delete or mode, not %q", recordOp, what)
	}
	if op.path == "" {
		return op, errors.New("the workspace itself is no entry")
	}
	return op, CheckRelative(op.path)
}

// put says what is put.
func (op *operation) put(h *tar.Header) error {
	switch h.Typeflag {
	case tar.TypeReg:
		op.verb = putFile
	case tar.TypeSymlink:
		op.verb, op.link = putFile, true
		if h.Linkname == "" || len(h.Linkname) > listing.MaxPath || strings.IndexByte(h.Linkname, 0) >= 0 {
			return errors.New("the target of a symbolic link must have 1 to 4096 bytes, and no zero byte")
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
		return errors.New("only files, folders and links can be put")
	}
	return nil
}

// stageFile stages a file or a symbolic link.
func (c *change) stageFile(op *operation, h *tar.Header, content io.Reader, s *stager) error {
	slot, dir, err := c.newSlot()
	if err != nil {
		return err
	}
	op.slot = slot
	if err := c.does("stage a file"); err != nil {
		return err
	}
	if op.link {
		err = unix.Symlinkat(h.Linkname, dir, staged(slot))
	} else {
		var n int64
		n, err = s.write(dir, staged(slot), op.mode, h.Size, content)
		c.counts.Bytes += n
	}
	if at := (unix.Timespec{Sec: h.ModTime.Unix(), Nsec: int64(h.ModTime.Nanosecond())}); err == nil && (at.Sec != 0 || at.Nsec != 0) {
		err = unix.UtimesNanoAt(dir, staged(slot), []unix.Timespec{{Nsec: unix.UTIME_OMIT}, at}, unix.AT_SYMLINK_NOFOLLOW)
	}
	if errors.As(err, new(unix.Errno)) {
		return &Refusal{op.path, err}
	}
	return err
}

// stager writes the content of files. Where each has to be flushed by itself, several are at once: a disk does them together.
type stager struct {
	single bool
	buffer []byte

	flushes sync.WaitGroup
	turns   chan struct{}
	mu      sync.Mutex
	failed  error
}

// flushesAtOnce bounds how many files are flushed at once.
const flushesAtOnce = 16

func newStager(reach Reach) *stager {
	return &stager{single: reach == Single, buffer: make([]byte, 256<<10), turns: make(chan struct{}, flushesAtOnce)}
}

// write writes a file of a size, and gives how much it has written.
func (s *stager) write(dir int, name string, mode uint32, size int64, content io.Reader) (written int64, err error) {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return 0, err
	}
	for written < size && err == nil {
		var n int
		if n, err = content.Read(s.buffer[:min(size-written, int64(len(s.buffer)))]); err != nil && n == 0 {
			err = unreadable(err)
			break
		}
		written += int64(n)
		err = writeAll(fd, s.buffer[:n])
	}
	if err == nil {
		err = unix.Fchmod(fd, mode)
	}
	if err != nil || !s.single {
		unix.Close(fd)
		return written, err
	}
	s.turns <- struct{}{}
	s.flushes.Go(func() {
		if err := unix.Fsync(fd); err != nil {
			s.mu.Lock()
			s.failed = err
			s.mu.Unlock()
		}
		unix.Close(fd)
		<-s.turns
	})
	return written, nil
}

// wait waits until all that was written is flushed, where that is done here.
func (s *stager) wait() error {
	s.flushes.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
