package mkext4

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/disk/ext4"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

const (
	regular = unix.S_IFREG | 0o644
	folders = unix.S_IFDIR | 0o755
	symlink = unix.S_IFLNK | 0o777
)

// begin returns a writer for a new image.
func begin(t testing.TB) (*Writer, string) { return beginSized(t, Size) }

// beginSized returns a writer for a new image with a file system of size bytes.
func beginSized(t testing.TB, size int64) (*Writer, string) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	w, err := New(f, Identity{Label: "test", UUID: [16]byte{1, 2, 3}, Made: time.Unix(1_600_000_000, 0)}, size)
	if err != nil {
		t.Fatal(err)
	}
	return w, f.Name()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func text(s string) (Entry, io.Reader) {
	return Entry{Mode: regular, Size: int64(len(s))}, strings.NewReader(s)
}

func (w *Writer) mustAdd(t testing.TB, name string, e Entry, content io.Reader) {
	t.Helper()
	must(t, w.Add(name, e, content))
}

// finished completes an image and opens it. It fails if e2fsck reports anything.
func finished(t testing.TB, w *Writer, path string) *ext4.FS {
	t.Helper()
	must(t, w.Finish())
	clean(t, path)
	f, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	fsys, err := ext4.OpenFile(f)
	must(t, err)
	return fsys
}

func clean(t testing.TB, path string) {
	t.Helper()
	out, err := exec.Command(testenv.NeedsTool(t, "e2fsck"), "-fn", path).Output()
	if err != nil || strings.Count(string(out), "\n") != 6 { // five passes and a summary
		t.Fatalf("%v: %s", err, out)
	}
}

func TestFoldersOfAllSizes(t *testing.T) {
	w, path := begin(t)
	sizes := map[string]int{"none": 0, "one": 1, "fills its block": 254, "two blocks": 255, "many": 50_000, "long names": 9000}
	for folder, count := range sizes {
		w.mustAdd(t, folder, Entry{Mode: folders}, nil)
		for i := range count {
			name := fmt.Sprintf("%08d", i)
			if folder == "long names" { // These names need two levels of the hash tree.
				name = fmt.Sprintf("%05d-ü%s", i, strings.Repeat("ÿ", 123))
			}
			w.mustAdd(t, folder+"/"+name, Entry{Mode: regular}, nil)
		}
	}
	fsys := finished(t, w, path)
	for folder, count := range sizes {
		entries, err := fsys.ReadDir(folder)
		if err != nil || len(entries) != count {
			t.Errorf("%s: %d entries, %v", folder, len(entries), err)
		}
	}
	for folder, want := range map[string]int64{"none": 4096, "fills its block": 4096, "two blocks": 3 * 4096} {
		if info, err := fsys.Lstat(folder); err != nil || info.Size() != want {
			t.Errorf("%s: %v, %v", folder, info.Size(), err)
		}
	}
}

// TestHashesMatchDebugfs compares the hashes of names with hashes from debugfs.
// TestLongPathsNeedNoMemory checks that the writer keeps only the names of files, not their paths.
func TestLongPathsNeedNoMemory(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const files = 5000
	w, _ := begin(t)
	deep := strings.Repeat(strings.Repeat("d", 200)+"/", 19)
	before := heap()
	for i := range files {
		w.mustAdd(t, fmt.Sprint(deep, i), Entry{Mode: regular}, nil)
	}
	if used := heap() - before; used > files*1000 {
		t.Errorf("%d files need %d KiB", files, used>>10)
	}
	must(t, w.Finish())
}

func TestHashesMatchDebugfs(t *testing.T) {
	program := testenv.NeedsTool(t, "debugfs")
	for _, name := range []string{"a", "abc", "abcd", strings.Repeat("x", 31), strings.Repeat("y", 32), strings.Repeat("z", 33), strings.Repeat("w", 255), "file-4711.txt"} {
		out, err := exec.Command(program, "-R", "dx_hash -h half_md4 -s 7079726f-0000-4000-8000-000000000001 "+name).Output()
		must(t, err)
		major, minor := hash(name)
		if want := fmt.Sprintf("is %#x (minor %#x)", major, minor); !strings.Contains(string(out), want) {
			t.Errorf("%s: %s, not %s", name, out, want)
		}
	}
}

// TestContent writes files with extent trees of up to two levels below the root. One of the files
// spans the reserved blocks in the middle of an image.
func TestContent(t *testing.T) {
	w, path := begin(t)
	want := map[string][]byte{}
	random := rand.New(rand.NewPCG(1, 2))
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return b
	}
	for _, size := range []int{0, 1, 4095, 4096, 4097, 1<<20 - 1, 1 << 20, 1<<20 + 1, 3 << 20} {
		want[fmt.Sprint("of ", size)] = noise(size)
	}
	for _, runs := range []int{2, 4, 5, 340, 341, 1360, 1361, 3000} {
		b := make([]byte, runs*8192+100)
		for i := range runs {
			copy(b[i*8192:], "data")
		}
		want[fmt.Sprintf("%d pieces", runs)] = b
	}
	want["zeros"], want["zeros in the end"], want["zeros before"] = make([]byte, 5<<20), append([]byte("x"), make([]byte, 10_000)...), append(make([]byte, 10_000), 'x')
	for name, content := range want {
		w.mustAdd(t, name, Entry{Mode: regular, Size: int64(len(content))}, bytes.NewReader(content))
	}
	large := noise(1 << 20)
	const times = 300 // In MiB. The file extends beyond the backup group and needs more than two extents.
	w.mustAdd(t, "large", Entry{Mode: regular, Size: times << 20}, io.LimitReader(&repeating{what: large}, times<<20))
	w.mustAdd(t, "behind", Entry{Mode: regular, Size: 3}, strings.NewReader("end"))
	fsys := finished(t, w, path)
	for name, content := range want {
		if got, err := fs.ReadFile(fsys, name); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	f, err := fsys.Open("large")
	must(t, err)
	got := make([]byte, 1<<20)
	for i := range times {
		if _, err := io.ReadFull(f, got); err != nil || !bytes.Equal(got, large) {
			t.Fatalf("MiB %d: %v", i, err)
		}
	}
	if n, _ := disk.Allocated(path); n > (times+40)<<20 {
		t.Errorf("%d MiB are taken", n>>20)
	}
}

// repeating is an endless reader that repeats its content.
type repeating struct {
	what []byte
	at   int
}

func (r *repeating) Read(p []byte) (int, error) {
	n := copy(p, r.what[r.at:])
	r.at = (r.at + n) % len(r.what)
	return n, nil
}

func TestBlocksAroundReservedRanges(t *testing.T) {
	w, _ := begin(t)
	for _, start := range []uint32{copyStart - 2, flexSize - 2, 7*flexSize - 1} {
		w.data.at = start
		e, err := w.data.write(5*blockSize, &repeating{what: []byte("x")})
		must(t, err)
		must(t, w.data.flush())
		last := e[len(e)-1]
		if len(e) != 2 || e[0].physical != start || last.physical != w.layout.reserved(start+uint32(e[0].count)) || last.count+e[0].count != 5 {
			t.Errorf("from %d: %v", start, e)
		}
	}
}

func TestTimesAndOwners(t *testing.T) {
	w, path := begin(t)
	times := map[string]time.Time{
		"before": time.Unix(-2, 5), "long before": time.Unix(-1<<31, 0), "late": time.Unix(1<<31, 999_999_999), "later": time.Unix(1<<32+17, 1), "last": time.Unix(1<<34-1<<31-1, 0), "zero": time.Unix(0, 0),
	}
	for name, when := range times {
		w.mustAdd(t, name, Entry{Mode: regular, UID: 4_000_000_000, GID: 65_536, Accessed: when, Changed: when.Add(1), Modified: when}, nil)
	}
	w.mustAdd(t, "too early", Entry{Mode: regular, Modified: time.Unix(-1<<40, 0)}, nil)
	w.mustAdd(t, "too late", Entry{Mode: regular, Modified: time.Unix(1<<40, 0)}, nil)
	w.mustAdd(t, "above/it", Entry{Mode: regular}, nil)
	w.mustAdd(t, "above", Entry{Mode: unix.S_IFDIR | 0o2700, UID: 5, Modified: time.Unix(7, 8)}, nil)
	fsys := finished(t, w, path)
	for name, when := range times {
		info, err := fsys.Lstat(name)
		must(t, err)
		st := info.Sys().(*syscall.Stat_t)
		if !info.ModTime().Equal(when) || time.Unix(st.Atim.Unix()) != when || time.Unix(st.Ctim.Unix()) != when.Add(1) || st.Uid != 4_000_000_000 || st.Gid != 65_536 {
			t.Errorf("%s: %+v, not %v", name, st, when)
		}
	}
	for name, want := range map[string]int64{"too early": -1 << 31, "too late": 1<<34 - 1<<31 - 1} {
		if info, err := fsys.Lstat(name); err != nil || info.ModTime().Unix() != want {
			t.Errorf("%s: %v, %v", name, info.ModTime(), err)
		}
	}
	if info, err := fsys.Lstat("above"); err != nil || info.Mode() != fs.ModeDir|fs.ModeSetgid|0o700 || !info.ModTime().Equal(time.Unix(7, 8)) {
		t.Errorf("%v, %v", info, err)
	}
}

func TestAttributes(t *testing.T) {
	w, path := begin(t)
	want := map[string]map[string]string{
		"none": {}, "small": {"user.a": "b"}, "empty": {"user.empty": ""}, "large": {"user.large": strings.Repeat("v", 4000)},
		"both":    {"security.capability": strings.Repeat("c", 20), "user.ÿ": strings.Repeat("v", 300), "trusted.x": "yyy", "user.b": "\x00\xff", "system.posix_acl_access": "\x01\x00\x00\x00"},
		"ordered": {"user.bb": strings.Repeat("1", 50), "user.a": strings.Repeat("2", 50), "user.ab": strings.Repeat("3", 50), "trusted.a": strings.Repeat("4", 50), "security.aaa": strings.Repeat("5", 50)},
	}
	for name, attributes := range want {
		w.mustAdd(t, name, Entry{Mode: regular, Xattrs: attributes}, nil)
		w.mustAdd(t, name+" folder", Entry{Mode: folders, Xattrs: attributes}, nil)
		w.mustAdd(t, name+" link", Entry{Mode: symlink, Target: strings.Repeat("t", len(name)*20), Xattrs: attributes}, nil)
	}
	for name, attributes := range map[string]map[string]string{
		"too large": {"user.large": strings.Repeat("v", 4070)}, "unknown": {"other.a": "b"}, "no name": {"user.": "b"}, "a long name": {"user." + strings.Repeat("n", 256): ""}, "a zero": {"user.a\x00": ""},
		"more than a name": {"system.posix_acl_accessory": ""},
	} {
		w, _ := begin(t)
		if err := w.Add("a", Entry{Mode: regular, Xattrs: attributes}, nil); fault.KindOf(err) != fault.Corrupt {
			t.Errorf("%s: %v", name, err)
		}
	}
	fsys := finished(t, w, path)
	for name, attributes := range want {
		for _, kind := range []string{"", " folder", " link"} {
			if got, err := fsys.Xattrs(name + kind); err != nil || fmt.Sprint(got) != fmt.Sprint(attributes) {
				t.Errorf("%s%s: %q, %v", name, kind, got, err)
			}
		}
	}
}

func TestHardLinks(t *testing.T) {
	w, path := begin(t)
	e, content := text("shared")
	w.mustAdd(t, "first", e, content)
	for i := range maxLinks - 1 {
		must(t, w.Link(fmt.Sprintf("many/%d", i), "first"))
	}
	if err := w.Link("too many", "first"); fault.KindOf(err) != fault.Corrupt {
		t.Errorf("got %v", err)
	}
	w.mustAdd(t, "symbolic", Entry{Mode: symlink, Target: "x"}, nil)
	must(t, w.Link("a/b/c", "symbolic"))
	for name, to := range map[string]string{"to nothing": "none", "to a folder": "a", "to the root": ".", "first": "symbolic", ".": "first", "itself": "itself", "below a file": "first/x"} {
		if err := w.Link(name, to); fault.KindOf(err) != fault.Corrupt {
			t.Errorf("%s: %v", name, err)
		}
	}
	fsys := finished(t, w, path)
	info, err := fsys.Lstat("many/64000")
	if must(t, err); info.Sys().(*syscall.Stat_t).Nlink != maxLinks {
		t.Errorf("%+v", info.Sys())
	}
}

func TestUnsupportedEntries(t *testing.T) {
	for name, e := range map[string]Entry{
		"": {Mode: regular}, "/": {Mode: regular}, "a/": {Mode: regular}, "/a": {Mode: regular}, "a//b": {Mode: regular}, "./a": {Mode: regular}, "..": {Mode: regular}, "a/../b": {Mode: regular},
		"zero\x00": {Mode: regular}, strings.Repeat("n", 256): {Mode: regular}, "there": {Mode: regular}, "there/below": {Mode: regular}, "folder": {Mode: regular}, ".": {Mode: regular},
		"no kind": {Mode: 0o644}, "unknown kind": {Mode: 0o170644}, "no target": {Mode: symlink}, "long target": {Mode: symlink, Target: strings.Repeat("t", 4096)}, "negative": {Mode: regular, Size: -1},
		"huge": {Mode: regular, Size: 1 << 45}, "lost+found": {Mode: symlink, Target: "x"}, "lost+found/..": {Mode: folders},
	} {
		w, _ := begin(t)
		w.mustAdd(t, "there", Entry{Mode: regular}, nil)
		w.mustAdd(t, "folder", Entry{Mode: folders}, nil)
		if err := w.Add(name, e, nil); fault.KindOf(err) != fault.Corrupt {
			t.Errorf("%q: %v", name, err)
		}
	}
	w, _ := begin(t)
	if err := w.Add("short", Entry{Mode: regular, Size: 5}, strings.NewReader("four")); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "short") {
		t.Errorf("got %v", err)
	}
}

func TestFullImages(t *testing.T) {
	w, _ := begin(t)
	w.data.at = blockCount - 3
	if err := w.Add("a", Entry{Mode: regular, Size: 4 * blockSize}, &repeating{what: []byte("x")}); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("blocks: %v", err)
	}
	w, _ = begin(t)
	w.inodes.last = w.layout.inodes() - 1
	w.mustAdd(t, "last", Entry{Mode: regular}, nil)
	if err := w.Add("a", Entry{Mode: regular}, nil); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("inodes: %v", err)
	}
	if err := w.Add("b/c", Entry{Mode: regular}, nil); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("inodes of folders: %v", err)
	}
}
