package ext4

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestReadsAttributes compares the attributes in a host tree with images that mkfs.ext4 created
// from the tree.
func TestReadsAttributes(t *testing.T) {
	tree := t.TempDir()
	want := map[string]map[string]string{
		"none": {}, "small": {"user.a": "b"}, "empty": {"user.empty": ""}, "both": {"user.a": "b", "user.large": strings.Repeat("v", 600)},
		"odd": {"user.\xff=ü": "\x00\xff\x00"}, "many": {},
	}
	for i := range 10 {
		want["many"]["user."+strings.Repeat("n", i+1)] = strings.Repeat("v", i)
	}
	for name, attributes := range want {
		path := filepath.Join(tree, name)
		if err := os.WriteFile(path, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		for key, value := range attributes {
			if err := unix.Setxattr(path, key, []byte(value), 0); err != nil {
				testenv.Lacks(t, err)
			}
		}
	}
	for _, options := range [][]string{nil, {"-I", "128", "-b", "1024"}, {"-I", "1024"}} {
		fsys := openImage(t, makeImage(t, tree, "4M", options...))
		for name, attributes := range want {
			if got, err := fsys.Xattrs(name); err != nil || !maps.Equal(got, attributes) {
				t.Errorf("%v %s: %q, %v", options, name, got, err)
			}
		}
		if _, err := fsys.Xattrs("missing"); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
}

// TestHostileAttributes reads entries that contain one error each.
func TestHostileAttributes(t *testing.T) {
	entry := func(change func(b []byte)) []byte {
		b := make([]byte, 64)
		le := binary.LittleEndian
		b[0], b[1] = 4, 1
		le.PutUint16(b[2:], 60)
		le.PutUint32(b[8:], 3)
		copy(b[16:], "name")
		copy(b[60:], "val")
		change(b)
		return b
	}
	for name, c := range map[string]struct {
		b    []byte
		want error
		has  string
	}{
		"as it was":          {entry(func([]byte) {}), nil, "val"},
		"cut":                {entry(func([]byte) {})[:19], ErrCorrupt, ""},
		"a value outside":    {entry(func(b []byte) { b[2] = 62 }), ErrCorrupt, ""},
		"a value far away":   {entry(func(b []byte) { b[3] = 255 }), ErrCorrupt, ""},
		"an endless value":   {entry(func(b []byte) { b[11] = 255 }), ErrCorrupt, ""},
		"a value elsewhere":  {entry(func(b []byte) { b[4] = 1 }), errors.ErrUnsupported, ""},
		"a long name":        {entry(func(b []byte) { b[0] = 255 }), ErrCorrupt, ""},
		"a zero in its name": {entry(func(b []byte) { b[17] = 0 }), nil, ""},
		"no name":            {entry(func(b []byte) { b[0] = 0; clear(b[16:20]) }), nil, ""},
		"an unknown kind":    {entry(func(b []byte) { b[1] = 99 }), nil, ""},
		"a name too many":    {entry(func(b []byte) { b[1] = 2 }), nil, ""},
		"no value":           {entry(func(b []byte) { b[8], b[2] = 0, 255 }), nil, ""},
		"nothing":            {nil, nil, ""},
	} {
		got := map[string]string{}
		if err := addXattrs(got, c.b, c.b); !errors.Is(err, c.want) || got["user.name"] != c.has {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestNextDataMatchesContent compares the data ranges of a sparse file with its content.
func TestNextDataMatchesContent(t *testing.T) {
	tree := t.TempDir()
	const size = 1<<20 + 77
	var at []int64
	for i := range int64(30) {
		at = append(at, i*32768+i%3*4096)
	}
	sparse(t, filepath.Join(tree, "f"), size, at, bytes.Repeat([]byte("x"), 5000))
	sparse(t, filepath.Join(tree, "hole"), size, nil, nil)
	sparse(t, filepath.Join(tree, "end"), size, []int64{size - 5}, []byte("final"))
	fsys := openImage(t, makeImage(t, tree, "4M", "-b", "1024"))
	for name, wanted := range map[string]int64{"f": 30 * 5 * 1024, "hole": 0, "end": 77} {
		content, err := os.ReadFile(filepath.Join(tree, name))
		if err != nil {
			t.Fatal(err)
		}
		file, err := fsys.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		f := file.(interface {
			NextData(int64) (int64, int64, error)
		})
		total, last := int64(0), int64(0)
		for {
			start, end, err := f.NextData(last)
			if err != nil {
				t.Fatal(err)
			}
			if len(bytes.Trim(content[last:max(start, last)], "\x00")) > 0 {
				t.Errorf("%s: not all is zero from %d to %d", name, last, start)
			}
			if start == end {
				break
			}
			total, last = total+end-start, end
		}
		if len(bytes.Trim(content[last:], "\x00")) > 0 || total != wanted {
			t.Errorf("%s: %d bytes of data, not %d; the last end at %d", name, total, wanted, last)
		}
		if start, end, err := f.NextData(size); start != end || err != nil {
			t.Errorf("%s: behind its end from %d to %d, %v", name, start, end, err)
		}
	}
}
