package view

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/disk/mkext4"
)

// sample is an archive that pyro-runsc wrote. To update it, run: cd runsc && go test ./layer -run
// TestSample -update
const sample = "testdata/layer.tar"

func sampleOver(t *testing.T, lower Tree) Tree {
	t.Helper()
	archive, err := os.Open(sample)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { archive.Close() })
	info, err := archive.Stat()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Over(t.Context(), lower, archive, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestArchiveOfHelper checks the tree of the sample.
func TestArchiveOfHelper(t *testing.T) {
	tree := sampleOver(t, root(t))
	longName, page := strings.Repeat("n", 255), func(c string) string { return strings.Repeat(c, 4096) }
	for dir, want := range map[string]string{
		".": "bin dev etc holes lost+found " + longName + " not\xffutf8 n\xfc\nm workspace workspaces", "etc": "conf empty linked sub", "etc/sub/deep": "file", "bin": "tool",
		"dev": "fifo none null pipe sda socket", "holes": "all end side by side start",
	} {
		if got := names(t, tree, dir); got != want {
			t.Errorf("%s: %q, not %q", dir, got, want)
		}
	}
	access := []allowed{owner(7), user(4, 1234), group(4), mask(4), others(0)}
	list := stored(access...)
	for name, want := range map[string]struct {
		mode, uid, gid, links uint32
		size                  int64
		device                uint64
		xattrs                map[string]string
		content               string
	}{
		".":                  {mode: dir | 0o750, uid: 9},
		"etc":                {mode: dir | 0o1775, uid: 1 << 31, gid: 5},
		"etc/conf":           {mode: reg | 0o4755, links: 2, size: 4106, xattrs: map[string]string{"user.bytes": "\x00\xff\n=", "user.empty": "", "trusted.note": "trusted"}, content: page("c") + page("a")[:10]},
		"etc/empty":          {mode: reg | 0o600, links: 1},
		"bin":                {mode: dir | 0o770, xattrs: map[string]string{"system.posix_acl_access": list, "system.posix_acl_default": list}},
		"bin/tool":           {mode: reg | 0o740, links: 1, size: 1, xattrs: map[string]string{"system.posix_acl_access": list}, content: "d"},
		"holes":              {mode: dir | 0o755, xattrs: map[string]string{"user.folder": "folder"}},
		"holes/end":          {mode: reg | 0o600, links: 1, size: 1 << 30},
		"holes/start":        {mode: reg | 0o600, links: 1, size: 1<<40 + 7},
		"holes/all":          {mode: reg | 0o600, links: 1, size: 3 << 20},
		"holes/side by side": {mode: reg | 0o600, links: 1, size: 6*4096 + 100, content: page("\x00") + page("j") + page("f") + page("g") + page("\x00") + page("\x00") + page("a")[:100]},
		"dev/fifo":           {mode: unix.S_IFIFO | 0o622, links: 1},
		"dev/null":           {mode: chr | 0o606, links: 1, device: unix.Mkdev(1, 3)},
		"dev/none":           {mode: unix.S_IFBLK | 0o660, links: 1},
		"dev/sda":            {mode: lnk, links: 1, size: 2006, xattrs: map[string]string{"trusted.link": "link"}},
		"n\xfc\nm":           {mode: reg | 0o600, links: 1},
	} {
		info, err := tree.Lstat(name)
		if err != nil {
			t.Error(err)
			continue
		}
		st := info.Sys().(*syscall.Stat_t)
		modified := time.Unix(1_700_000_000, 123_456_789).Add(time.Duration(len(name)))
		if st.Mode != want.mode || st.Uid != want.uid || st.Gid != want.gid || want.links != 0 && uint32(st.Nlink) != want.links || st.Size != want.size || st.Rdev != want.device || !info.ModTime().Equal(modified) {
			t.Errorf("%q: %+v", name, st)
		}
		if got, err := tree.Xattrs(name); err != nil || len(got) != len(want.xattrs) {
			t.Errorf("%q: %q, %v", name, got, err)
		} else {
			for key, value := range want.xattrs {
				if v, there := got[key]; !there || v != value {
					t.Errorf("%q: %s is %q, not %q", name, key, v, value)
				}
			}
		}
		if got := ""; info.Mode().IsRegular() && st.Size < 1<<20 {
			if got, err = readAll(tree, name); got != want.content || err != nil {
				t.Errorf("%q: %q, %v", name, got, err)
			}
		}
	}
	if target, err := tree.ReadLink("dev/sda"); target != "../../"+strings.Repeat("up", 1000) || err != nil {
		t.Errorf("%q, %v", target, err)
	}
	if content, err := readAll(tree, "etc/linked"); len(content) != 4106 || err != nil {
		t.Errorf("%d bytes, %v", len(content), err)
	}
	for name, want := range map[string][2]int64{"holes/end": {1<<30 - 4096, 1 << 30}, "holes/start": {0, 4096}, "holes/all": {}} {
		if start, end, err := dataOf(t, tree, name); start != want[0] || end != want[1] || err != nil {
			t.Errorf("%s: data from %d to %d, %v", name, start, end, err)
		}
	}
}

// dataOf returns the first data range of a file.
func dataOf(t *testing.T, tree Tree, name string) (start, end int64, err error) {
	t.Helper()
	f, err := tree.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return f.(mkext4.Sparse).NextData(0)
}

// TestExportArchiveOfHelper checks that an export preserves everything, including holes.
func TestExportArchiveOfHelper(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	v := New(sampleOver(t, root(t)), nil)
	if err := Export(t.Context(), v, path); err != nil {
		t.Fatal(err)
	}
	tool(t, "e2fsck", "-fn", path)
	if n, _ := disk.Allocated(path); n > 2<<20 {
		t.Errorf("%d KiB for some files", n>>10)
	}
	exported := opened(t, path)
	for name, want := range map[string][2]int64{"holes/end": {1<<30 - 4096, 1 << 30}, "holes/start": {0, 4096}, "holes/all": {}, "holes/side by side": {4096, 4 * 4096}} {
		if start, end, err := dataOf(t, exported, name); start != want[0] || end != want[1] || err != nil {
			t.Errorf("%s: data from %d to %d, %v", name, start, end, err)
		}
	}
	same(t, listing(t, short{exported}), listing(t, short{v}))
}

// short is a tree that omits files that take long to read.
type short struct{ Tree }

func (s short) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := s.Tree.ReadDir(name)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		info, err := e.Info()
		return err == nil && info.Size() >= 1<<30
	}), err
}
