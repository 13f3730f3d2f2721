package listing

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
)

// ErrBroken means that the input is not a valid list.
var ErrBroken = errors.New("the list is malformed")

// Reader reads an untrusted list. It checks that the paths form a tree in list order, and that each
// entry is in a directory that was listed before.
type Reader struct {
	from  *bufio.Reader
	path  []byte // path of the previous entry
	spare []byte // buffer for the next path
	last  Attributes
	count uint64
	err   error
}

// NewReader returns a reader for one list.
func NewReader(from io.Reader) *Reader {
	return &Reader{from: bufio.NewReaderSize(from, bufferSize), path: make([]byte, 0, MaxPath), spare: make([]byte, 0, MaxPath)}
}

// Next returns the next entry. It returns [io.EOF] at the end of the list, and
// [io.ErrUnexpectedEOF] if the list is truncated. It returns errors of the input unchanged.
func (r *Reader) Next() (Entry, error) {
	if r.err != nil {
		return Entry{}, r.err
	}
	e, err := r.next()
	if err != nil {
		r.err = err
		return Entry{}, err
	}
	return e, nil
}

func (r *Reader) next() (Entry, error) {
	kind, err := r.from.ReadByte()
	if err != nil {
		return Entry{}, unexpectedEOF(err)
	}
	if kind == 0 {
		return Entry{}, r.end()
	}
	if Kind(kind) > BlockDevice || r.count == MaxEntries {
		return Entry{}, ErrBroken
	}
	n := numbers{from: r.from}
	if err := r.nextPath(&n); err != nil {
		return Entry{}, err
	}
	a := Attributes{Kind: Kind(kind)}
	a.Mode = uint32(n.unsigned(0o7777))
	a.Size = int64(n.unsigned(math.MaxInt64))
	a.ModTime = r.last.ModTime + n.signed()
	a.ChangeTime = a.ModTime + n.signed()
	a.Inode = r.last.Inode + uint64(n.signed())
	a.UID = uint32(n.unsigned(math.MaxUint32))
	a.GID = uint32(n.unsigned(math.MaxUint32))
	a.Links = uint32(n.unsigned(math.MaxUint32))
	e := Entry{Path: string(r.path), Attributes: a}
	if a.Kind == Link {
		target := make([]byte, n.unsigned(MaxPath))
		n.fill(target)
		if n.err == nil && (len(target) == 0 || bytes.IndexByte(target, 0) >= 0) {
			n.err = ErrBroken
		}
		e.Target = string(target)
	}
	r.last = a
	r.count++
	return e, n.err
}

// end checks the entry count at the end of a list.
func (r *Reader) end() error {
	n := numbers{from: r.from}
	count := n.unsigned(MaxEntries)
	switch {
	case n.err != nil:
		return n.err
	case count != r.count:
		return fmt.Errorf("%w: it has %d entries instead of %d", ErrBroken, r.count, count)
	}
	return io.EOF
}

// nextPath reads the next path and checks that it can follow the previous one. The first path must
// be empty.
func (r *Reader) nextPath(n *numbers) error {
	shared := int(n.unsigned(uint64(len(r.path))))
	length := int(n.unsigned(uint64(MaxPath - shared)))
	next := append(r.spare[:0], r.path[:shared]...)[:shared+length]
	if n.fill(next[shared:]); n.err != nil {
		return n.err
	}
	if r.count == 0 && len(next) != 0 || r.count > 0 && !follows(next, r.path, r.last.Kind) {
		return ErrBroken
	}
	r.path, r.spare = next, r.path
	return nil
}

// follows reports whether a path can come directly after the previous path, which has the given
// kind. The path must be an entry of the previous path, or a later sibling of the previous path or
// of one of its parents. By induction, all parents of a path come before it in the list.
func follows(path, before []byte, kind Kind) bool {
	folder, last := []byte(nil), path
	if i := bytes.LastIndexByte(path, '/'); i == 0 {
		return false
	} else if i > 0 {
		folder, last = path[:i], path[i+1:]
	}
	if len(last) == 0 || string(last) == "." || string(last) == ".." || bytes.IndexByte(last, 0) >= 0 {
		return false
	}
	if bytes.Equal(folder, before) {
		return kind == Folder
	}
	rest := before
	if len(folder) > 0 {
		var found bool
		if rest, found = bytes.CutPrefix(before, folder); !found || rest[0] != '/' {
			return false
		}
		rest = rest[1:]
	}
	sibling, _, _ := bytes.Cut(rest, []byte{'/'})
	return bytes.Compare(last, sibling) > 0
}

// numbers reads the fields of an entry. After the first error it reads nothing more.
type numbers struct {
	from *bufio.Reader
	err  error
}

func (n *numbers) unsigned(most uint64) uint64 {
	if n.err != nil {
		return 0
	}
	v, shift := uint64(0), 0
	for {
		b, err := n.from.ReadByte()
		if err != nil {
			n.err = unexpectedEOF(err)
			return 0
		}
		if shift == 63 && b > 1 {
			n.err = ErrBroken
			return 0
		}
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			break
		}
		shift += 7
	}
	if v > most {
		n.err = ErrBroken
		return 0
	}
	return v
}

func (n *numbers) signed() int64 {
	v := n.unsigned(math.MaxUint64)
	return int64(v>>1) ^ -int64(v&1)
}

func (n *numbers) fill(b []byte) {
	if n.err == nil {
		_, err := io.ReadFull(n.from, b)
		n.err = unexpectedEOF(err)
	}
}

// unexpectedEOF turns io.EOF into io.ErrUnexpectedEOF.
func unexpectedEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
