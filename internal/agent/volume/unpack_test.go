package volume

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/volume/volumetest"
	"github.com/pyro-mcp/pyro/internal/sparse"
)

// rootOf opens a directory as the root of a machine.
func rootOf(t testing.TB, dir string) int {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// entry is an entry of an archive: a header with content.
type entry struct {
	tar.Header
	content string
}

func regular(name, content string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, content}
}

func linkTo(kind byte, name, target string) entry {
	return entry{tar.Header{Typeflag: kind, Name: name, Linkname: target}, ""}
}

func directory(name string, mode int64) entry {
	return entry{tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode}, ""}
}

// archived returns an archive whose entries belong to the caller, unless they have an owner.
func archived(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		e.Size, e.ModTime, e.Format = int64(len(e.content)), volumetest.When, tar.FormatPAX
		if e.Uid == 0 && e.Gid == 0 {
			e.Uid, e.Gid = os.Getuid(), os.Getgid()
		}
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestUnpackEarliestTime checks that 0 is a time like any other. Archives that must be equal for
// equal content have it.
func TestUnpackEarliestTime(t *testing.T) {
	dir := t.TempDir()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{{Typeflag: tar.TypeDir, Name: "d/", Mode: 0o755}, {Typeflag: tar.TypeReg, Name: "d/f", Mode: 0o644}, {Typeflag: tar.TypeSymlink, Name: "l", Linkname: "d"}} {
		h.Uid, h.Gid, h.ModTime = os.Getuid(), os.Getgid(), time.Unix(0, 0)
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Unpack(t.Context(), rootOf(t, dir), "/", &b, nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"d", "d/f", "l"} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || !info.ModTime().Equal(time.Unix(0, 0)) {
			t.Errorf("%s: %v, %v", name, info.ModTime(), err)
		}
	}
}

// noTemporary checks that no temporary files remain.
func noTemporary(t testing.TB, dir string) {
	t.Helper()
	filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error {
		if strings.HasPrefix(filepath.Base(path), ".pyro-") {
			t.Errorf("leftover: %s", path)
		}
		return nil
	})
}

// TestUnpackPackedTree packs a tree with all kinds of attributes, and unpacks it into a merged
// tree.
func TestUnpackPackedTree(t *testing.T) {
	from, to := volumetest.InMemory(t), volumetest.InMemory(t)
	volumetest.Put(t, from+"/top/a/file", "content")
	volumetest.Put(t, from+"/top/\xff ü\n", strings.Repeat("x", 300_000))
	volumetest.Put(t, from+"/top/"+strings.Repeat(strings.Repeat("deep", 60)+"/", 5)+"file", "x")
	for _, err := range []error{
		os.Link(from+"/top/a/file", from+"/top/b"), os.Symlink("../nowhere", from+"/top/a/link"), os.Mkdir(from+"/top/empty", 0o700),
		os.Chmod(from+"/top/a/file", 0o751|fs.ModeSetgid), os.Chmod(from+"/top/empty", 0o1555|fs.ModeSticky), unix.Mkfifo(from+"/top/pipe", 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	xattrs := unix.Setxattr(from+"/top/a/file", "user.pyro", []byte("a=\x00\n"), 0) == nil
	if os.Getuid() == 0 {
		for _, err := range []error{os.Lchown(from+"/top/a/link", 7, 1<<22), os.Chown(from+"/top/b", 1000, 100), os.Chown(from+"/top/empty", 1, 2)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		os.Chmod(from+"/top/a/file", 0o751|fs.ModeSetgid)
	}
	for _, name := range []string{"a/file", "a", "empty"} {
		os.Chtimes(from+"/top/"+name, time.Time{}, volumetest.When)
	}
	var archive bytes.Buffer
	counts, err := Pack(&archive, rootOf(t, from), "/top", "new")
	if err != nil || counts.Skipped != 1 {
		t.Fatalf("%+v, %v", counts, err)
	}
	os.Remove(from + "/top/pipe")
	os.MkdirAll(to+"/in/it", 0o755)
	done, err := Unpack(t.Context(), rootOf(t, to), "/in/it", bytes.NewReader(archive.Bytes()), nil)
	if err != nil || done.Files != 3 || done.Links != 2 || done.Folders != 8 || done.Bytes != 300_008 || done.Skipped+done.Lost != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if got, want := volumetest.Tree(t, to+"/in/it/new"), volumetest.Tree(t, from+"/top"); got != want {
		t.Errorf("unpacked %s", volumetest.Differ(got, want))
	}
	if info, err := os.Stat(to + "/in/it/new/a"); err != nil || !info.ModTime().Equal(volumetest.When) {
		t.Errorf("the time of a folder is %v, %v", info.ModTime(), err)
	}
	value := make([]byte, 10)
	if n, err := unix.Getxattr(to+"/in/it/new/b", "user.pyro", value); xattrs && string(value[:max(n, 0)]) != "a=\x00\n" {
		t.Errorf("the attribute is %q, %v", value[:max(n, 0)], err)
	}
	// When the archive is unpacked again, it replaces each entry by an equal one.
	if again, err := Unpack(t.Context(), rootOf(t, to), "/in/it", &archive, nil); err != nil || again.Folders != 0 || again.Files != 3 {
		t.Errorf("%+v, %v", again, err)
	}
	if got, want := volumetest.Tree(t, to+"/in/it/new"), volumetest.Tree(t, from+"/top"); got != want {
		t.Errorf("unpacked again %s", volumetest.Differ(got, want))
	}
	noTemporary(t, to)
}

// TestUnpackIntoExistingFiles merges, replaces and follows links. Nothing leads out of the root.
func TestUnpackIntoExistingFiles(t *testing.T) {
	base := t.TempDir()
	dir, outside := base+"/root", base+"/outside"
	volumetest.Put(t, outside+"/kept", "kept")
	volumetest.Put(t, dir+"/app/old", "old")
	volumetest.Put(t, dir+"/app/sub/kept", "kept")
	volumetest.Put(t, dir+"/usr/lib/kept", "kept")
	for name, target := range map[string]string{
		"lib": "/usr/lib", "out": outside, "up": "../outside", "top": "..", "app/link": "/usr/lib/kept", "app/dangling": "nowhere", "app/lib": "../lib",
	} {
		if err := os.Symlink(target, dir+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	os.Chmod(dir+"/app/sub", 0o700)
	root := rootOf(t, dir)
	put := func(at string, owner *Owner, entries ...entry) error {
		_, err := Unpack(t.Context(), root, at, bytes.NewReader(archived(t, entries...)), owner)
		return err
	}
	me := &Owner{os.Getuid(), os.Getgid()}
	if err := put("/app", me, directory(".", 0o700), regular("./old", "new"), directory("sub", 0o777), regular("sub/more", "more"), regular("link", "file"),
		directory("lib", 0o700), regular("lib/added", "added"), regular("made/by/the/way", "1"), regular("/absolute", "2"), linkTo(tar.TypeLink, "sub/hard", "./old"),
		linkTo(tar.TypeLink, "old", "old"), linkTo(tar.TypeSymlink, "dangling", "old"), entry{tar.Header{Typeflag: tar.TypeFifo, Name: "pipe"}, ""}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"app/old": "new", "app/sub/kept": "kept", "app/sub/more": "more", "app/link": "file", "usr/lib/kept": "kept", "usr/lib/added": "added",
		"app/made/by/the/way": "1", "app/absolute": "2", "app/sub/hard": "new", "app/dangling": "new",
	} {
		if b, err := os.ReadFile(dir + "/" + name); string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	for name, want := range map[string]fs.FileMode{"app": 0o755, "app/sub": 0o700, "usr/lib": 0o755} {
		if info, err := os.Stat(dir + "/" + name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if err := put("/app", nil, directory(".", 0o700), directory("sub", 0o750), directory("lib", 0o700)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{"app": 0o755, "app/sub": 0o750, "usr/lib": 0o755} {
		if info, err := os.Stat(dir + "/" + name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s, with the attributes of the archive: %v, %v", name, info.Mode(), err)
		}
	}
	for _, at := range []string{"/lib", "/lib/", "/app/lib", "/top/lib", "/../lib", "/new/folder"} {
		if err := put(at, nil, regular("at", at)); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
	if b, err := os.ReadFile(dir + "/usr/lib/at"); string(b) != "/../lib" {
		t.Errorf("%q, %v", b, err)
	}
	for name, c := range map[string]struct {
		at    string
		entry entry
		want  error
	}{
		"a file over a folder":        {"/app", regular("sub", ""), Conflict("it is a directory, and can be replaced only by a directory")},
		"a link over a folder":        {"/app", linkTo(tar.TypeSymlink, "sub", "x"), Conflict("it is a directory, and can be replaced only by a directory")},
		"a folder over a file":        {"/app", directory("old", 0o755), ErrNoFolder},
		"a file below a file":         {"/app", regular("old/x", ""), ErrNoFolder},
		"into a file":                 {"/app/old", regular("x", ""), ErrNoFolder},
		"below a dangling link":       {"/", regular("out/x", ""), ErrNoFolder},
		"up":                          {"/app", regular("../x", ""), Invalid(`its name has ".."`)},
		"up within":                   {"/app", regular("sub/../../x", ""), Invalid(`its name has ".."`)},
		"a hard link up":              {"/app", linkTo(tar.TypeLink, "x", "../lib/kept"), Invalid("the target of a hard link must be the name of an entry")},
		"a hard link to nothing":      {"/app", linkTo(tar.TypeLink, "x", "none"), unix.ENOENT},
		"a hard link to a folder":     {"/app", linkTo(tar.TypeLink, "x", "sub"), unix.EPERM},
		"a hard link below a missing": {"/app", linkTo(tar.TypeLink, "x", "none/none"), unix.ENOENT},
		"no name":                     {"/app", regular(".", ""), Invalid("only a directory can be the top of the archive")},
		"a link without a target":     {"/app", linkTo(tar.TypeSymlink, "x", ""), Invalid("the target of a symbolic link must have 1 to 4096 bytes without NUL")},
		"a name that is too long":     {"/app", regular(strings.Repeat("x", 256), ""), unix.ENAMETOOLONG},
		"an invalid owner":            {"/app", entry{tar.Header{Typeflag: tar.TypeReg, Name: "x", Uid: -2, Gid: 1}, ""}, Invalid("its owner is invalid")},
	} {
		err := put(c.at, nil, c.entry)
		if c.want != nil && !errors.Is(err, c.want) || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b, _ := os.ReadFile(outside + "/kept"); string(b) != "kept" {
		t.Errorf("the file outside is %q", b)
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 1 {
		t.Errorf("outside are %v", entries)
	}
	noTemporary(t, base)
}

// TestUnpackOwners sets owners and removes set-id bits with them.
func TestUnpackOwners(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can set owners")
	}
	dir := t.TempDir()
	file := entry{tar.Header{Typeflag: tar.TypeReg, Name: "d/file", Mode: 0o4755, Uid: 5, Gid: 6}, "x"}
	link := entry{tar.Header{Typeflag: tar.TypeSymlink, Name: "d/link", Linkname: "x", Uid: 5, Gid: 6}, ""}
	for _, c := range []struct {
		owner *Owner
		want  string
	}{{nil, "5:6"}, {&Owner{0, 0}, "0:0"}, {&Owner{1000, 1<<32 - 2}, "1000:4294967294"}} {
		if _, err := Unpack(t.Context(), rootOf(t, dir), "/", bytes.NewReader(archived(t, file, link)), c.owner); err != nil {
			t.Fatal(err)
		}
		described := volumetest.Tree(t, dir+"/d")
		if !strings.Contains(described, `"file" urwxr-xr-x `+c.want+" ") || !strings.Contains(described, `"link" Lrwxrwxrwx `+c.want+" ") {
			t.Errorf("%v: %s", c.owner, described)
		}
	}
}

// TestUnpackBrokenArchives cuts an archive at each block. Files that are not complete have no name.
func TestUnpackBrokenArchives(t *testing.T) {
	whole := archived(t, regular("first", strings.Repeat("1", 600)), regular("second", strings.Repeat("2", 600)))
	for length := 0; length < len(whole); length += 256 {
		dir := t.TempDir()
		_, err := Unpack(t.Context(), rootOf(t, dir), "/x", bytes.NewReader(whole[:length]), nil)
		if length < len(whole)-512 && err == nil {
			t.Errorf("%d bytes: no error", length)
		}
		for _, name := range []string{"first", "second"} {
			if b, err := os.ReadFile(dir + "/x/" + name); err == nil && len(b) != 600 {
				t.Errorf("%d bytes: %s has %d bytes", length, name, len(b))
			}
		}
		noTemporary(t, dir)
	}
	own, dir := errors.New("own"), t.TempDir()
	_, err := Unpack(t.Context(), rootOf(t, dir), "/", io.MultiReader(bytes.NewReader(whole[:1200]), failingReader{own}), nil)
	if !errors.Is(err, own) {
		t.Errorf("a reader that fails: %v", err)
	}
	noTemporary(t, dir)
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(own)
	if _, err := Unpack(ended, rootOf(t, dir), "/", bytes.NewReader(whole), nil); !errors.Is(err, own) {
		t.Errorf("a context that has ended: %v", err)
	}
	if _, err := Unpack(t.Context(), rootOf(t, dir), "/", io.MultiReader(bytes.NewReader(whole), bytes.NewReader(make([]byte, maxAfterEnd+1))), nil); !errors.As(err, new(Invalid)) {
		t.Errorf("data after the end: %v", err)
	}
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

// TestPackPaths checks which entry a path means, and the names in the archive.
func TestPackPaths(t *testing.T) {
	dir := t.TempDir()
	volumetest.Put(t, dir+"/a/file", "1")
	volumetest.Put(t, filepath.Dir(dir)+"/secret", "secret")
	for name, target := range map[string]string{"link": "a", "out": "../secret", "far": filepath.Dir(dir) + "/secret"} {
		os.Symlink(target, dir+"/"+name)
	}
	unix.Mkfifo(dir+"/pipe", 0o600)
	root := rootOf(t, dir)
	for _, c := range []struct{ path, as, want string }{
		{"/a", "a", "a/ a/file"}, {"/a/", ".", "./ ./file"}, {"/a/.", "x", "x/ x/file"}, {"/a/file", "new", "new"}, {"/link", "link", "link>a"}, {"/link/", "l", "l/ l/file"},
		{"/out", "out", "out>../secret"}, {"/link/..", ".", "./ ./a/ ./a/file ./far>" + filepath.Dir(dir) + "/secret ./link>a ./out>../secret"},
	} {
		var archive bytes.Buffer
		if _, err := Pack(&archive, root, c.path, c.as); err != nil {
			t.Errorf("%s: %v", c.path, err)
		}
		var names []string
		for r := tar.NewReader(&archive); ; {
			h, err := r.Next()
			if err != nil {
				break
			}
			if h.Linkname != "" {
				h.Name += ">" + h.Linkname
			}
			names = append(names, h.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s as %s: %s", c.path, c.as, got)
		}
	}
	for path, want := range map[string]error{
		"/none": unix.ENOENT, "/a/file/": unix.ENOTDIR, "/pipe": ErrNotRegular, "/out/": unix.ENOENT, "/far/": unix.ENOENT, "/../secret": unix.ENOENT, "/link/none": unix.ENOENT,
	} {
		if _, err := Pack(io.Discard, root, path, "x"); !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	var archive bytes.Buffer
	if counts, err := Pack(&archive, rootOf(t, "/"), "/proc", "proc"); err != nil || counts.Entries != 1 {
		t.Errorf("/proc: %+v, %v", counts, err)
	}
}

// FuzzUnpack unpacks hostile archives into a folder that has links out of the root.
func FuzzUnpack(f *testing.F) {
	f.Add(archived(f, regular("a/b", "1"), linkTo(tar.TypeSymlink, "c", "/out"), regular("c/d", "2"), linkTo(tar.TypeLink, "e", "a/b"), directory("out", 0o700)))
	f.Add(archived(f, regular("../a", "1")))
	f.Add(archived(f, entry{tar.Header{Typeflag: tar.TypeReg, Name: "x", PAXRecords: map[string]string{"SCHILY.xattr.user.a": "b"}}, "c"}))
	for _, data := range []sparse.Ranges{nil, {{At: 0, Length: 5}}, {{At: 4096, Length: 512}, {At: 2048, Length: 7}}} {
		b := append(SparseHeader("x", &unix.Stat_t{Mode: 0o644, Size: 20_000}, data), bytes.Repeat([]byte("x"), int(data.Bytes()))...)
		f.Add(append(b, make([]byte, -len(b)&(tarBlock-1)+2*tarBlock)...))
	}
	f.Fuzz(func(t *testing.T, archive []byte) {
		base := t.TempDir()
		volumetest.Put(t, base+"/outside/kept", "kept")
		os.MkdirAll(base+"/root/in", 0o755)
		os.Symlink(base+"/outside", base+"/root/in/out")
		os.Symlink("../../outside", base+"/root/in/up")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // a sparse file can be huge
		defer cancel()
		_, err := Unpack(ctx, rootOf(t, base+"/root"), "/in", bytes.NewReader(archive), nil)
		if before := volumetest.Tree(t, base+"/outside"); strings.Count(before, "\n") != 2 || !strings.Contains(before, `"kept" -rw-r--r--`) {
			t.Errorf("%v: outside is\n%s", err, before)
		}
		noTemporary(t, base)
	})
}
