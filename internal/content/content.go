// Package content transfers the content of files in HTTP bodies. It is used between a machine's
// agent and its supervisor, and between the supervisor and its clients.
//
// An answer either fails or has content. If an error occurs before the first byte, the answer has
// an error status and the header [ErrorField]. If an error occurs later, the answer has a trailer
// of that name. Content without an error ends with the trailer [WholeField]. An answer that ends
// with neither trailer was cut off.
//
// Each server chooses how it encodes errors as text.
package content

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"sync"
)

// Names of the header and trailer fields that report how an answer ended.
const (
	ErrorField = "Pyro-Error" // header or trailer: the text of the error
	WholeField = "Pyro-Whole" // trailer: the content is complete
)

// ErrQuery means that a query is invalid.
var ErrQuery = errors.New("the request is not valid")

// Range selects a part of a file.
type Range struct {
	Offset int64
	Limit  int64 // in bytes; 0 means to the end of the file
}

// Query returns a query that selects the range of the file at path.
func (r Range) Query(path string) url.Values {
	return url.Values{"path": {path}, "offset": {strconv.FormatInt(r.Offset, 10)}, "limit": {strconv.FormatInt(r.Limit, 10)}}
}

// RangeOf parses a range from a query. It fails with [ErrQuery].
func RangeOf(q url.Values) (r Range, err error) {
	if r.Offset, err = Number(q, "offset"); err != nil {
		return Range{}, err
	}
	r.Limit, err = Number(q, "limit")
	return r, err
}

// File describes a file that a PUT replaces.
type File struct {
	Path    string
	Mode    uint32 // permission bits; 0 keeps the mode of an existing file and gives a new one 0644.
	Parents bool   // create missing parent folders.
	Size    int64  // in bytes; if negative, the file ends at the end of the body.
}

// Query returns the description as a query.
func (f File) Query() url.Values {
	return url.Values{
		"path": {f.Path}, "mode": {strconv.FormatUint(uint64(f.Mode), 10)},
		"parents": {strconv.FormatBool(f.Parents)}, "size": {strconv.FormatInt(f.Size, 10)},
	}
}

// FileOf parses a description from a query. It fails with [ErrQuery].
func FileOf(q url.Values) (File, error) {
	f := File{Path: q.Get("path"), Parents: q.Get("parents") == "true"}
	mode, err := Number(q, "mode")
	if err != nil {
		return File{}, err
	}
	if mode&^0o7777 != 0 {
		return File{}, fmt.Errorf("%w: mode is %q, at most 07777 is allowed", ErrQuery, q.Get("mode"))
	}
	f.Mode = uint32(mode)
	if f.Size, err = strconv.ParseInt(q.Get("size"), 10, 64); err != nil {
		return File{}, fmt.Errorf("%w: size is %q", ErrQuery, q.Get("size"))
	}
	return f, nil
}

// Number parses a number from 0 to 1<<63-1 from a query. It fails with [ErrQuery].
func Number(q url.Values, name string) (int64, error) {
	n, err := strconv.ParseUint(q.Get(name), 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%w: %s is %q", ErrQuery, name, q.Get(name))
	}
	return int64(n), nil
}

// bufferSize is the size of a copy buffer, in bytes. It is large because every read and write on
// the link to a machine switches to the machine and back.
const bufferSize = 1 << 20

// buffers reuses buffers. Most files are small, so a new buffer would cost more than copying the
// content.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// Copy copies all data from one stream to another through a buffer of 1 MiB.
func Copy(to io.Writer, from io.Reader) (int64, error) {
	buffer := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buffer)
	return io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, buffer[:])
}
