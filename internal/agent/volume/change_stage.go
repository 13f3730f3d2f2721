package volume

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
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
