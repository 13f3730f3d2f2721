package diff

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"unicode/utf8"
)

// content is what is in a file, or a link's target.
type content struct {
	data  []byte
	large bool // more than MaxContent, and not held
}

// read gives the content of an entry: nothing for nil and for what has none. The size of the entry becomes that of what was read.
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
	b.Grow(int(e.Size) + bytes.MinRead) // so that reading ends without growing
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

// text tells whether content is told by lines.
func (c content) text() bool {
	return !c.large && len(c.data) <= MaxText && bytes.IndexByte(c.data, 0) < 0 && bytes.Count(c.data, []byte("\n")) < MaxLines && utf8.Valid(c.data)
}

// errGone says that a file went away after it was listed.
var errGone = errors.New("the file is gone")

// equalStreams compares two files of the same size, which are too large to be held. errGone is told of the one after.
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
	for left := size + 1; left > 0; { // one byte more than there should be, which finds the end
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

// ended is nil for an error that says no more than that a file came to its end.
func ended(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil
	}
	return err
}
