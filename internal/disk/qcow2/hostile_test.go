package qcow2

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// small returns a layer with a data cluster, a zero cluster, and another data cluster.
func small(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "layer")
	qemu(t, "qemu-img", "create", "-q", "-f", "qcow2", "-o", "cluster_size=512", path, "64k")
	qemu(t, "qemu-io", "-c", "write -P 1 0 512", "-c", "write -z 512 512", "-c", "write -P 2 60k 512", path)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func openBytes(t testing.TB, b []byte) (*Disk, error) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "layer"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	return Open(nil, f)
}

func TestHostileLayers(t *testing.T) {
	good := small(t)
	be := binary.BigEndian
	first := func(b []byte) []byte { return b[be.Uint64(b[40:]):] }
	second := func(b []byte) []byte { return b[be.Uint64(first(b))&offsetMask:] }
	put32 := func(at int, v uint32) func([]byte) { return func(b []byte) { be.PutUint32(b[at:], v) } }
	put64 := func(at int, v uint64) func([]byte) { return func(b []byte) { be.PutUint64(b[at:], v) } }
	for name, c := range map[string]struct {
		change func([]byte)
		want   error
		says   string
	}{
		"as it was":               {func([]byte) {}, nil, ""},
		"no mark":                 {put32(0, 0), ErrCorrupt, "no header"},
		"an old version":          {put32(4, 2), ErrUnsupported, "version 2"},
		"a file below":            {put64(8, 112), ErrUnsupported, "backing file"},
		"the length of its name":  {put32(16, 5), ErrUnsupported, "backing file"},
		"tiny clusters":           {put32(20, 8), ErrCorrupt, "1 << 8"},
		"huge clusters":           {put32(20, 22), ErrCorrupt, "1 << 22"},
		"an endless shift":        {put32(20, 1<<32-1), ErrCorrupt, "1 << "},
		"huge":                    {put64(24, MaxSize+1), ErrUnsupported, "bytes"},
		"negative":                {put64(24, 1<<63), ErrUnsupported, "bytes"},
		"encrypted":               {put32(32, 2), ErrUnsupported, "encrypted"},
		"a short first table":     {put32(36, 1), ErrCorrupt, "1 entries"},
		"a first table outside":   {put64(40, 1<<40), ErrCorrupt, "L1 table is at"},
		"a first table far away":  {put64(40, 1<<63), ErrCorrupt, "L1 table is at"},
		"a first table anywhere":  {put64(40, 100), ErrCorrupt, "L1 table is at"},
		"snapshots":               {put32(60, 1), ErrUnsupported, "snapshots"},
		"dirty":                   {put64(72, 1), nil, ""},
		"known to be corrupt":     {put64(72, 2), ErrUnsupported, "corrupt"},
		"data elsewhere":          {put64(72, 4), ErrUnsupported, "external data file"},
		"another compression":     {put64(72, 8), ErrUnsupported, "compression type"},
		"subclusters":             {put64(72, 16), ErrUnsupported, "extended L2"},
		"of the future":           {put64(72, 1<<40), ErrUnsupported, "unknown features"},
		"a reserved bit above":    {func(b []byte) { first(b)[0] |= 1 << 5 }, ErrCorrupt, "an L1 entry"},
		"a reserved bit below":    {func(b []byte) { first(b)[7] |= 1 }, ErrCorrupt, "an L1 entry"},
		"a second table outside":  {func(b []byte) { be.PutUint64(first(b), 1<<40) }, ErrCorrupt, "a cluster at"},
		"compressed":              {func(b []byte) { second(b)[0] |= 1 << 6 }, ErrUnsupported, "compressed"},
		"a reserved bit":          {func(b []byte) { second(b)[7] |= 2 }, ErrCorrupt, "an L2 entry"},
		"a cluster outside":       {func(b []byte) { be.PutUint64(second(b), 1<<55) }, ErrCorrupt, "a cluster at"},
		"a cluster at the header": {func(b []byte) { be.PutUint64(second(b), 0) }, nil, ""},
		"all is one cluster":      {func(b []byte) { copy(second(b)[8:512], second(b)) }, nil, ""},
	} {
		b := slices.Clone(good)
		c.change(b)
		d, err := openBytes(t, b)
		if err == nil {
			_, err = io.ReadAll(io.NewSectionReader(d, 0, d.Size()))
		}
		if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for n := range len(good) {
		if n < 120 || n%100 == 0 {
			if d, err := openBytes(t, good[:n]); err == nil {
				io.ReadAll(io.NewSectionReader(d, 0, d.Size()))
			} else if !errors.Is(err, ErrCorrupt) {
				t.Errorf("cut to %d bytes: %v", n, err)
			}
		}
	}
}

// FuzzOpen changes bytes of a small layer. Each change consists of an offset of two bytes and the
// new value. A read must return all data or fail with a known error. The data must agree with the
// extents.
func FuzzOpen(f *testing.F) {
	good := small(f)
	f.Add([]byte{})
	f.Add([]byte{0, 20, 21, 0, 75, 1})
	f.Add([]byte{0, 40, 0, 4, 0, 255})
	f.Fuzz(func(t *testing.T, changes []byte) {
		b := slices.Clone(good)
		for ; len(changes) >= 3; changes = changes[3:] {
			b[(int(changes[0])<<8|int(changes[1]))%len(b)] = changes[2]
		}
		d, err := openBytes(t, b)
		if err != nil {
			known(t, err)
			return
		}
		size := min(d.Size(), mib)
		content := make([]byte, size)
		n, err := d.ReadAt(content, 0)
		if known(t, err); err == nil && int64(n) != size {
			t.Errorf("%d of %d bytes", n, size)
		}
		end := int64(0)
		count := 0
		stop := errors.New("enough")
		whole := err == nil
		err = d.Extents(func(offset, length int64) error {
			if offset < end || length <= 0 || offset+length > d.Size() {
				t.Errorf("%d bytes at %d, after %d", length, offset, end)
			}
			if whole && end < size && strings.Trim(string(content[end:min(offset, size)]), "\x00") != "" {
				t.Errorf("between %d and %d is something", end, offset)
			}
			if end = offset + length; end > 64*mib || count > 1000 {
				return stop
			}
			count++
			return nil
		})
		if err != stop {
			known(t, err)
		}
	})
}

func known(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
}
