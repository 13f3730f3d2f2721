package diff

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"unicode/utf8"
)

// content is the content of a file, or the target of a symbolic link.
type content struct {
	data  []byte
	large bool // the content is larger than MaxContent, so data is nil
}

// read returns the content of an entry. For nil and for types without content, the result is empty.
// read also sets the entry's size to the number of bytes that it read.
func read(ctx context.Context, tree Tree, e *Entry) (content, error) {
	switch {
	case e == nil || !e.Mode.IsRegular() && e.Link == "":
		return content{}, nil
	case !e.Mode.IsRegular():
		return content{data: []byte(e.Link)}, nil
	case e.Size > MaxContent:
		return content{large: true}, nil
	}
	f, err := tree.Open(ctx, e.Path)
	if err != nil {
		return content{}, err
	}
	defer f.Close()
	var b bytes.Buffer
	b.Grow(int(e.Size) + bytes.MinRead) // avoids growing the buffer
	n, err := b.ReadFrom(io.LimitReader(f, MaxContent+1))
	if err != nil {
		return content{}, err
	}
	if n > MaxContent {
		e.Size = max(e.Size, n)
		return content{large: true}, nil
	}
	e.Size = n
	return content{data: b.Bytes()}, nil
}

// text reports whether the content can be compared line by line.
func (c content) text() bool {
	return !c.large && len(c.data) <= MaxText && bytes.IndexByte(c.data, 0) < 0 && bytes.Count(c.data, []byte("\n")) < MaxLines && utf8.Valid(c.data)
}

// errGone reports that a file was deleted after it was listed.
var errGone = errors.New("the file is gone")

// equalStreams compares two files of equal size that are too large for memory. If the file in after
// no longer exists, it returns errGone.
func equalStreams(ctx context.Context, before, after Tree, path string, size int64) (bool, error) {
	a, err := before.Open(ctx, path)
	if err != nil {
		return false, err
	}
	defer a.Close()
	b, err := after.Open(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, errGone
	}
	if err != nil {
		return false, err
	}
	defer b.Close()
	x, y := make([]byte, 256<<10), make([]byte, 256<<10)
	for left := size + 1; left > 0; { // One extra byte detects a longer file.
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n, err := io.ReadFull(a, x[:min(left, int64(len(x)))])
		if ended(err) != nil {
			return false, err
		}
		m, err := io.ReadFull(b, y[:min(left, int64(len(y)))])
		if ended(err) != nil {
			return false, err
		}
		if !bytes.Equal(x[:n], y[:m]) {
			return false, nil
		}
		if n < len(x) {
			break
		}
		left -= int64(n)
	}
	return true, nil
}

// ended returns nil if err reports only the end of a file.
func ended(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil
	}
	return err
}
