package view

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func archive(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		if h.ModTime.IsZero() {
			h.ModTime = when
		}
		h.Format = tar.FormatPAX
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(bytes.Repeat([]byte{'0' + byte(len(h.Name)%10)}, int(h.Size))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func over(t testing.TB, lower Tree, entries ...tar.Header) Tree {
	t.Helper()
	b := archive(t, entries...)
	tree, err := Over(t.Context(), lower, bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func folderOf(name string) tar.Header {
	return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}
}
func fileOf(name string, size int64) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size}
}
func removed(name string) tar.Header { return tar.Header{Typeflag: tar.TypeChar, Name: name} }
func withXattr(attribute, value string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: "noted", PAXRecords: map[string]string{xattrRecord + attribute: value}}
}
func opaque(name string) tar.Header {
	h := folderOf(name)
	h.PAXRecords = map[string]string{"SCHILY.xattr.trusted.overlay.opaque": "y"}
	return h
}

func TestChangesOverRoot(t *testing.T) {
	tree := over(t, root(t),
		tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o750, Uid: 9}, folderOf("etc/"), fileOf("etc/conf", 10), removed("etc/gone"), fileOf("etc/new", 700),
		tar.Header{Typeflag: tar.TypeLink, Name: "etc/again", Linkname: "etc/new"}, opaque("bin/"), fileOf("bin/only", 3), folderOf("dev/"),
		tar.Header{Typeflag: tar.TypeSymlink, Name: "dev/null", Linkname: "zero"}, tar.Header{Typeflag: tar.TypeFifo, Name: "dev/sda", Mode: 0o600},
		removed("out"), fileOf("workspaces", 0), folderOf("fresh/"), tar.Header{Typeflag: tar.TypeChar, Name: "fresh/zero", Mode: 0o666, Devmajor: 1, Devminor: 5},
		tar.Header{Typeflag: tar.TypeReg, Name: "fresh/noted", Mode: 0o6711, Uid: 5, Gid: 6, PAXRecords: map[string]string{"SCHILY.xattr.user.a": "b", "SCHILY.xattr.system.posix_acl_access": aclText(owner(6), user(4, 1234), group(4), mask(4), others(0))}},
	)
	for dir, want := range map[string]string{
		".": "bin dev etc fresh lost+found not\xffutf8 workspace workspaces", "etc": "again conf new sub", "etc/sub": "deep", "etc/sub/deep": "file", "bin": "only",
		"dev": "null pipe sda socket", "fresh": "noted zero", "workspace": "hidden",
	} {
		if got := names(t, tree, dir); got != want {
			t.Errorf("%s: %q, not %q", dir, got, want)
		}
	}
	for name, want := range map[string]string{"etc/conf": strings.Repeat("8", 10), "etc/new": strings.Repeat("7", 700), "etc/again": strings.Repeat("7", 700), "bin/only": "888", "etc/sub/deep/file": "deep", "workspaces": "", "not\xffutf8": "bytes"} {
		if got, err := readAll(tree, name); got != want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]error{
		"etc/gone": fs.ErrNotExist, "bin/tool": fs.ErrNotExist, "out": fs.ErrNotExist, "out/x": fs.ErrNotExist, "dev/null": ErrSymlink, "dev/null/x": ErrSymlink,
		"etc/conf/x": syscall.ENOTDIR, "fresh/none": fs.ErrNotExist, "etc/../bin": fs.ErrInvalid, "etc//conf": fs.ErrInvalid, "bin/tool/x": fs.ErrNotExist, "dev/pipe/x": syscall.ENOTDIR,
	} {
		if _, err := tree.Open(name); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := tree.Lstat(name); want != ErrSymlink && !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if target, err := tree.ReadLink("dev/null"); target != "zero" || err != nil {
		t.Errorf("%q, %v", target, err)
	}
	if got, err := tree.Xattrs("fresh/noted"); len(got) != 2 || got["user.a"] != "b" || got["system.posix_acl_access"] != stored(owner(6), user(4, 1234), group(4), mask(4), others(0)) || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := tree.Xattrs("bin"); len(got) != 0 || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	info, err := tree.Lstat(".")
	if err != nil || info.Mode() != fs.ModeDir|0o750 || info.Sys().(*syscall.Stat_t).Uid != 9 {
		t.Errorf("%v, %v", info, err)
	}
	listing(t, tree)
}

func TestNoChanges(t *testing.T) {
	same(t, listing(t, over(t, root(t))), listing(t, root(t)))
}

// TestOverlayMatchesLinux compares the tree from Over with an overlay mount of Linux.
func TestOverlayMatchesLinux(t *testing.T) {
	testenv.NeedsRoot(t, "mount")
	top := t.TempDir()
	in := func(parts ...string) string { return filepath.Join(append([]string{top}, parts...)...) }
	for _, name := range []string{"lower/keep/sub", "lower/replaced/sub", "lower/filled", "lower/becomes", "upper/keep", "upper/replaced", "upper/filled/deep", "upper/new", "work", "merged"} {
		if err := os.MkdirAll(in(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"lower/keep/a", "lower/keep/gone", "lower/keep/sub/b", "lower/replaced/old", "lower/replaced/sub/older", "lower/becomes/x", "lower/file", "upper/keep/c", "upper/replaced/now", "upper/becomes", "upper/new/n", "upper/filled/deep/f"} {
		if err := os.WriteFile(in(name), []byte(name), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(
		unix.Mknod(in("upper/keep/gone"), unix.S_IFCHR, 0), unix.Mknod(in("upper/keep/none"), unix.S_IFCHR, 0), os.Mkdir(in("upper/file"), 0o700), os.WriteFile(in("upper/file/in"), nil, 0o600),
		unix.Setxattr(in("upper/replaced"), "trusted.overlay.opaque", []byte("y"), 0), os.Link(in("upper/new/n"), in("upper/new/m")), os.Symlink("n", in("upper/new/l")), os.Chmod(in("upper/keep"), 0o711),
	); err != nil {
		testenv.Lacks(t, err)
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", in("lower"), in("upper"), in("work"))
	if out, err := exec.Command("mount", "-t", "overlay", "overlay", "-o", options, in("merged")).CombinedOutput(); err != nil {
		testenv.Lacks(t, "overlays: ", string(out))
	}
	defer unix.Unmount(in("merged"), 0)
	tool(t, "tar", "-C", in("upper"), "--format=pax", "--xattrs", "--xattrs-include=*", `--transform=s,^\./\(.\),\1,S`, "-cf", in("upper.tar"), ".")
	changes, err := os.Open(in("upper.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Close()
	info, err := changes.Stat()
	if err != nil {
		t.Fatal(err)
	}
	var trees []Tree
	for _, path := range []string{in("lower"), in("merged")} {
		r, err := os.OpenRoot(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		trees = append(trees, Folder(r))
	}
	tree, err := Over(t.Context(), trees[0], changes, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	same(t, withoutTimes(listing(t, tree)), withoutTimes(listing(t, trees[1])))
}

// withoutTimes removes fields that an archive does not contain, and fields that overlay layers do
// not share.
func withoutTimes(lines []string) (short []string) {
	for _, line := range lines {
		before, rest, _ := strings.Cut(line, " times ")
		_, after, _ := strings.Cut(rest, "map[")
		short = append(short, before+after)
	}
	return short
}

func TestHostileChanges(t *testing.T) {
	whole := archive(t, folderOf("./"), fileOf("a", 5000))
	for name, c := range map[string]struct {
		archive []byte
		kind    fault.Kind
	}{
		"a dot before":             {archive(t, fileOf("./a", 1)), fault.Corrupt},
		"an empty part":            {archive(t, folderOf("a/"), fileOf("a//b", 1)), fault.Corrupt},
		"a list that is no base64": {archive(t, withXattr("system.posix_acl_access", "=")), fault.Corrupt},
		"an invalid list":          {archive(t, withXattr("system.posix_acl_default", "list")), fault.Corrupt},
		"climbs":                   {archive(t, fileOf("../a", 1)), fault.Corrupt},
		"climbs later":             {archive(t, folderOf("a/"), fileOf("a/../../b", 1)), fault.Corrupt},
		"is absolute":              {archive(t, fileOf("/a", 1)), fault.Corrupt},
		"a long name":              {archive(t, fileOf("./"+strings.Repeat("n", 256), 1)), fault.Corrupt},
		"a long path":              {archive(t, folderOf(strings.Repeat("n/", maxPath/2+1))), fault.Corrupt},
		"in no folder":             {archive(t, fileOf("a/b", 1)), fault.Corrupt},
		"in a file":                {archive(t, fileOf("a", 1), fileOf("a/b", 1)), fault.Corrupt},
		"in a removed folder":      {archive(t, removed("a"), fileOf("a/b", 1)), fault.Corrupt},
		"twice":                    {archive(t, fileOf("a", 1), fileOf("a", 1)), fault.Corrupt},
		"the root twice":           {archive(t, folderOf("./"), folderOf("./")), fault.Corrupt},
		"a root that is a file":    {archive(t, tar.Header{Typeflag: tar.TypeFifo, Name: "."}), fault.Corrupt},
		"a link to nothing":        {archive(t, tar.Header{Typeflag: tar.TypeLink, Name: "a", Linkname: "b"}), fault.Corrupt},
		"a link to a folder":       {archive(t, folderOf("b/"), tar.Header{Typeflag: tar.TypeLink, Name: "a", Linkname: "b"}), fault.Corrupt},
		"a link to the root":       {archive(t, tar.Header{Typeflag: tar.TypeLink, Name: "a", Linkname: "."}), fault.Corrupt},
		"a link out":               {archive(t, tar.Header{Typeflag: tar.TypeLink, Name: "a", Linkname: "../../etc/passwd"}), fault.Corrupt},
		"a link to a removed file": {archive(t, removed("b"), tar.Header{Typeflag: tar.TypeLink, Name: "a", Linkname: "b"}), fault.Corrupt},
		"an unknown kind":          {archive(t, tar.Header{Typeflag: 'Z', Name: "a"}), fault.Corrupt},
		"an impossible device":     {archive(t, tar.Header{Typeflag: tar.TypeChar, Name: "a", Devmajor: 1 << 20}), fault.Corrupt},
		"an impossible owner":      {archive(t, tar.Header{Typeflag: tar.TypeReg, Name: "a", Uid: 1 << 33}), fault.Corrupt},
		"an endless link":          {archive(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "a", Linkname: strings.Repeat("l", 5000)}), fault.Corrupt},
		"an empty link":            {archive(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "a"}), fault.Corrupt},
		"no archive":               {bytes.Repeat([]byte("no archive "), 100), fault.Corrupt},
		"cut":                      {whole[:3000], fault.Corrupt},
		"cut in a header":          {whole[:700], fault.Corrupt},
		"nothing":                  {nil, fault.Corrupt},
		"without an end":           {whole[:len(whole)-1024], fault.Corrupt},
		"with half an end":         {whole[:len(whole)-512], fault.Corrupt},
		"an end":                   {make([]byte, 1024), ""},
	} {
		_, err := Over(t.Context(), root(t), bytes.NewReader(c.archive), int64(len(c.archive)))
		if fault.KindOf(err) != c.kind {
			t.Errorf("%s: kind %q: %v", name, fault.KindOf(err), err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Over(ctx, root(t), bytes.NewReader(whole), int64(len(whole))); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestChangesDeeperThanPathLimit checks a directory that is deeper than Linux's path limit. A
// machine can create such a directory.
func TestChangesDeeperThanPathLimit(t *testing.T) {
	var entries []tar.Header
	path := ""
	for range 30 {
		path += strings.Repeat("d", 200) + "/"
		entries = append(entries, folderOf(path))
	}
	tree := over(t, root(t), append(entries, fileOf(path+"bottom", 3))...)
	if got := names(t, tree, strings.TrimSuffix(path, "/")); got != "bottom" {
		t.Errorf("%q", got)
	}
	if got, err := readAll(tree, path+"bottom"); len(got) != 3 || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	disk := filepath.Join(t.TempDir(), "disk")
	if err := Export(t.Context(), New(tree, nil), disk); err != nil {
		t.Fatal(err)
	}
	tool(t, "e2fsck", "-fn", disk)
}

// FuzzOver checks that every archive results in a consistent tree or a known error.
func FuzzOver(f *testing.F) {
	f.Add(archive(f, folderOf("./"), folderOf("etc/"), fileOf("etc/conf", 3), removed("etc/gone"), tar.Header{Typeflag: tar.TypeLink, Name: "l", Linkname: "etc/conf"}))
	f.Add(archive(f, opaque("bin/"), tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/x", Linkname: "y"}))
	f.Add(archive(f, withXattr("user.bytes", "\x00\xff\n"), folderOf("a/")))
	f.Add(archive(f, withXattr("system.posix_acl_access", aclText(owner(6), user(4, 1234), group(4), mask(4), others(0)))))
	f.Add(holed(f, "10000", "somedata", 2, 0, 4, 9000, 4))
	f.Add(holed(f, "9223372036854775807", "data", 1, 1<<63-5, 4))
	for _, b := range hostileHoles(f) {
		f.Add(b)
	}
	if b, err := os.ReadFile(sample); err != nil {
		f.Fatal(err)
	} else {
		f.Add(b)
	}
	lower := root(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		tree, err := Over(t.Context(), lower, bytes.NewReader(b), int64(len(b)))
		if err != nil {
			if k := fault.KindOf(err); k != fault.Corrupt {
				t.Fatalf("kind %q: %v", k, err)
			}
			return
		}
		count := 0
		err = fs.WalkDir(New(tree, tree), ".", func(name string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if count++; count > 10_000 {
				return errors.New("there is no end")
			}
			name = strings.TrimPrefix(name, "workspace/")
			_, err = tree.Xattrs(name)
			switch {
			case e.Type().IsRegular():
				err = errors.Join(err, readSome(tree, name))
			case e.Type() == fs.ModeSymlink:
				_, other := tree.ReadLink(name)
				err = errors.Join(err, other)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// readSome reads the start of each data range of a file, and parts of its holes. Holes can be too
// large to read in full.
func readSome(tree Tree, name string) error {
	f, err := tree.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	holes, is := f.(*fileWithHoles)
	if !is {
		_, err := io.Copy(io.Discard, f)
		return err
	}
	size := holes.Size()
	for at := int64(0); ; {
		start, end, err := holes.NextData(at)
		switch {
		case err != nil || start == 0 && end == 0:
			return err
		case start < at || end <= start || end > size:
			return fmt.Errorf("from %d on it has data from %d to %d, and is of %d bytes", at, start, end, size)
		}
		from := max(0, start-10)
		b := make([]byte, min(end+10, size)-from)
		if _, err := holes.ReadAt(b, from); err != nil && err != io.EOF {
			return err
		}
		if at < from && !bytes.Equal(b[:start-from], make([]byte, start-from)) {
			return fmt.Errorf("there is something before %d", start)
		}
		at = end
	}
}
