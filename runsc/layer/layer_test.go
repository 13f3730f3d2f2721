package layer

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// node is a file in a tree in memory.
type node struct {
	kind     byte
	content  map[int64]string // content of the pieces, by offset
	size     int64
	target   string
	device   [2]uint32
	metadata Metadata
}

// memory is a tree in memory. It checks that names are valid and that no name is made twice.
type memory map[string]*node

func (m memory) add(name string, n *node) error {
	if err := m.check(name); err != nil {
		return err
	}
	if m[name] != nil {
		return fmt.Errorf("%q exists already", name)
	}
	if parent := m[path.Dir(name)]; parent == nil || parent.kind != tar.TypeDir {
		return fmt.Errorf("the parent of %q is not a folder", name)
	}
	m[name] = n
	return nil
}

func (m memory) check(name string) error {
	if name == "" || path.Clean(name) != name || path.IsAbs(name) || name == ".." || strings.HasPrefix(name, "../") || strings.Contains(name, "\x00") {
		return fmt.Errorf("invalid name %q: %w", name, errOut)
	}
	return nil
}

var errOut = errors.New("not a name in the tree")

func (m memory) Remove(name string) error {
	if name == "." {
		return fmt.Errorf("the root must not be removed: %w", errOut)
	}
	maps.DeleteFunc(m, func(other string, _ *node) bool { return other == name || strings.HasPrefix(other, name+"/") })
	return m.check(name)
}

func (m memory) Folder(name string) error {
	if n := m[name]; n != nil && n.kind == tar.TypeDir {
		return nil
	}
	return errors.Join(m.Remove(name), m.add(name, &node{kind: tar.TypeDir}))
}

func (m memory) File(name string) (File, error) {
	n := &node{kind: tar.TypeReg, content: map[int64]string{}}
	return n, m.add(name, n)
}

func (n *node) WriteAt(p []byte, offset int64) (int, error) {
	if offset < 0 || offset+int64(len(p)) < 0 {
		return 0, fmt.Errorf("write at offset %d: %w", offset, errOut)
	}
	n.content[offset] = string(p)
	n.size = max(n.size, offset+int64(len(p)))
	return len(p), nil
}

func (n *node) Truncate(size int64) error {
	n.size = size
	return nil
}

func (n *node) Close() error { return nil }

func (m memory) Symlink(name, target string) error {
	return m.add(name, &node{kind: tar.TypeSymlink, target: target})
}

func (m memory) Link(old, name string) error {
	if err := m.check(old); err != nil {
		return err
	}
	n := m[old]
	if n == nil || n.kind == tar.TypeDir {
		return fmt.Errorf("link to %q, which does not exist", old)
	}
	return m.add(name, n)
}

func (m memory) Node(name string, kind byte, major, minor uint32) error {
	return m.add(name, &node{kind: kind, device: [2]uint32{major, minor}})
}

func (m memory) Set(name string, metadata Metadata) error {
	n := m[name]
	if n == nil {
		return fmt.Errorf("set attributes of %q, which does not exist", name)
	}
	n.metadata = metadata
	return m.check(name)
}

// entry is an entry in a description.
type entry struct {
	header   tar.Header
	size     uint64
	segments []segment
}

// describe writes a description in gVisor's format.
func describe(t testing.TB, entries []entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := e.header
		var content []byte
		if h.Typeflag == tar.TypeReg {
			content = binary.LittleEndian.AppendUint64(content, e.size)
			for _, s := range e.segments {
				content, _ = binary.Append(content, binary.LittleEndian, s)
			}
			h.Size = int64(len(content))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const page = 4096

var changed = time.Unix(1700000000, 123456789)

// written returns the layer that Write makes from a description. Each letter of the alphabet fills
// one page.
func written(t testing.TB, entries []entry) []byte {
	t.Helper()
	var pages []byte
	for c := byte('a'); c <= 'z'; c++ {
		pages = append(pages, bytes.Repeat([]byte{c}, page)...)
	}
	var b bytes.Buffer
	err := Write(&b, Source{bytes.NewReader(describe(t, entries)), bytes.NewReader(pages), func(name string) (time.Time, map[string]string, error) {
		if name == "etc/whole" {
			return changed, map[string]string{"user.bytes": "\x00\xff\n", "user.=": "left out", "user.large": strings.Repeat("x", maxXattrs)}, nil
		}
		return changed, nil, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var everything = []entry{
	{header: tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755}},
	{header: tar.Header{Typeflag: tar.TypeDir, Name: "./etc/", Mode: 0o1775, Uid: 1 << 30, Gid: 5}},
	{header: tar.Header{Typeflag: tar.TypeReg, Name: "./etc/whole", Mode: 0o4755}, size: page + 10, segments: []segment{{0, page, 2 * page}, {page, 2 * page, 0}}},
	{header: tar.Header{Typeflag: tar.TypeReg, Name: "./etc/empty", Mode: 0o600}},
	{header: tar.Header{Typeflag: tar.TypeReg, Name: "./etc/holes", Mode: 0o600}, size: 1 << 50, segments: []segment{{page, 2 * page, 0}, {1 << 40, 1<<40 + page, 25 * page}}},
	{header: tar.Header{Typeflag: tar.TypeReg, Name: "./etc/hole", Mode: 0o600}, size: 1<<63 - 1},
	{header: tar.Header{Typeflag: tar.TypeLink, Name: "./etc/linked", Linkname: "./etc/whole"}},
	{header: tar.Header{Typeflag: tar.TypeSymlink, Name: "./etc/symlink", Linkname: "../../up"}},
	{header: tar.Header{Typeflag: tar.TypeFifo, Name: "./etc/fifo", Mode: 0o622}},
	{header: tar.Header{Typeflag: tar.TypeChar, Name: "./etc/null", Mode: 0o666, Devmajor: 1, Devminor: 3}},
	{header: tar.Header{Typeflag: tar.TypeChar, Name: "./gone"}},
	{header: tar.Header{Typeflag: tar.TypeLink, Name: "./etc/gone too", Linkname: "./gone"}},
	{header: tar.Header{Typeflag: tar.TypeDir, Name: "./opaque/", Mode: 0o700, PAXRecords: map[string]string{opaqueRecord: "y", accessRecord: "list"}}},
	{header: tar.Header{Typeflag: tar.TypeReg, Name: "./opaque/n\xfc\nm", Mode: 0o600}, size: 1, segments: []segment{{0, page, 3 * page}}},
}

func environment() memory {
	m := memory{}
	for _, name := range []string{".", "etc", "gone", "opaque", "opaque/below", "kept"} {
		m[name] = &node{kind: tar.TypeDir}
	}
	for _, name := range []string{"etc/whole", "etc/kept", "etc/gone too", "gone/file", "opaque/below/file"} {
		m[name] = &node{kind: tar.TypeReg, size: 7}
	}
	return m
}

func TestApplyWrittenLayer(t *testing.T) {
	m := environment()
	if err := Apply(m, bytes.NewReader(written(t, everything))); err != nil {
		t.Fatal(err)
	}
	set := func(mode uint32) Metadata { return Metadata{Mode: mode, Modified: changed} }
	text := func(c string, n int) string { return strings.Repeat(c, n) }
	whole := &node{kind: tar.TypeReg, size: page + 10, content: map[int64]string{0: text("c", page) + text("a", 10)}, metadata: Metadata{
		Mode: 0o4755, Modified: changed, Xattrs: map[string]string{"user.bytes": "\x00\xff\n"},
	}}
	want := memory{
		".": {kind: tar.TypeDir, metadata: set(0o755)}, "kept": {kind: tar.TypeDir}, "etc/kept": {kind: tar.TypeReg, size: 7},
		"etc":       {kind: tar.TypeDir, metadata: Metadata{Mode: 0o1775, UID: 1 << 30, GID: 5, Modified: changed}},
		"etc/whole": whole, "etc/linked": whole,
		"etc/empty":   {kind: tar.TypeReg, content: map[int64]string{}, metadata: set(0o600)},
		"etc/holes":   {kind: tar.TypeReg, size: 1 << 50, content: map[int64]string{page: text("a", page), 1 << 40: text("z", page)}, metadata: set(0o600)},
		"etc/hole":    {kind: tar.TypeReg, size: 1<<63 - 1, content: map[int64]string{}, metadata: set(0o600)},
		"etc/symlink": {kind: tar.TypeSymlink, target: "../../up", metadata: Metadata{Modified: changed, Symlink: true}},
		"etc/fifo":    {kind: tar.TypeFifo, metadata: set(0o622)},
		"etc/null":    {kind: tar.TypeChar, device: [2]uint32{1, 3}, metadata: set(0o666)},
		"opaque": {kind: tar.TypeDir, metadata: Metadata{
			Mode: 0o700, Modified: changed, Xattrs: map[string]string{"system.posix_acl_access": "list"},
		}},
		"opaque/n\xfc\nm": {kind: tar.TypeReg, size: 1, content: map[int64]string{0: "d"}, metadata: set(0o600)},
	}
	for name := range maps.Keys(want) {
		if m[name] == nil {
			t.Errorf("%q does not exist", name)
		} else if !same(m[name], want[name]) {
			t.Errorf("%q is %+v, not %+v", name, m[name], want[name])
		}
	}
	for name := range maps.Keys(m) {
		if want[name] == nil {
			t.Errorf("%q exists", name)
		}
	}
	if m["etc/whole"] != m["etc/linked"] {
		t.Error("a link is a copy")
	}
}

func same(a, b *node) bool {
	x, y := *a, *b
	if !x.metadata.Modified.Equal(y.metadata.Modified) {
		return false
	}
	x.metadata.Modified = y.metadata.Modified
	if len(x.content) == 0 && len(y.content) == 0 {
		x.content = y.content
	}
	return reflect.DeepEqual(x, y)
}

// TestTarReadsLayer checks that the program tar can read all standard parts of a layer.
func TestTarReadsLayer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "layer")
	if err := os.WriteFile(file, written(t, everything), 0o600); err != nil {
		t.Fatal(err)
	}
	list := exec.Command("tar", "-tvf", file, "--numeric-owner", "--full-time")
	list.Env = append(os.Environ(), "TZ=UTC", "LC_ALL=C")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"drwxr-xr-x 0/0 0 2023-11-14 22:13:20.123456789 ./", "drwxrwxr-t 1073741824/5 0 2023-11-14 22:13:20.123456789 etc/",
		"-rwsr-xr-x 0/0 4106 2023-11-14 22:13:20.123456789 etc/whole", "link to etc/whole", "etc/symlink -> ../../up", "prw--w--w- 0/0 0 ", "crw-rw-rw- 0/0 1,3 ",
		"etc/gone too", `opaque/n\374\nm`,
	} {
		if !strings.Contains(strings.Join(strings.Fields(string(out)), " "), want) {
			t.Errorf("output has no %q: %s", want, out)
		}
	}
	if content, err := exec.Command("tar", "-xOf", file, "etc/whole").Output(); err != nil || string(content) != strings.Repeat("c", page)+strings.Repeat("a", 10) {
		t.Errorf("read %d bytes of the file, %v", len(content), err)
	}
}
