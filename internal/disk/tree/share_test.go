package tree

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/testenv"
	"github.com/pyro-mcp/pyro/internal/xattr"
)

func inodeOf(t *testing.T, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	check(t, unix.Lstat(path, &st))
	return st.Ino
}

// withoutLinks removes the numbers of links from a description.
func withoutLinks(lines []string) (all []string) {
	for _, line := range lines {
		all = append(all, regexp.MustCompile(` links \d+`).ReplaceAllString(line, ""))
	}
	return all
}

// TestCopySharing checks that a copy shares exactly the files that are the same in the base. The
// copy must be equal to one that shares nothing.
func TestCopySharing(t *testing.T) {
	top := t.TempDir()
	base, src := filepath.Join(top, "base"), filepath.Join(top, "src")
	long := strings.Repeat("0123456789", 40000)
	check(t, os.MkdirAll(filepath.Join(base, "d/e"), 0o755))
	for _, f := range []string{"same", "d/e/same", "content", "mode", "time", "attribute", "swapped1", "swapped2", "gone", "kind", "linked", "again"} {
		put(t, filepath.Join(base, f), long+f, 0o644)
	}
	put(t, filepath.Join(base, "empty"), "", 0o600)
	check(t, os.Remove(filepath.Join(base, "again")))
	check(t, os.Link(filepath.Join(base, "linked"), filepath.Join(base, "again")))
	when := time.Unix(1e9, 0) // the same for all files, as in many archives
	check(t, filepath.WalkDir(base, func(path string, _ os.DirEntry, err error) error {
		check(t, err)
		return os.Chtimes(path, when, when)
	}))
	_, err := Copy(t.Context(), src, base)
	check(t, err)
	at := func(name string) string { return filepath.Join(src, name) }
	put(t, at("content"), long+"CONTENT", 0o644)
	put(t, at("new"), long, 0o644)
	check(t, os.Chmod(at("mode"), 0o640))
	check(t, os.Chtimes(at("time"), when, when.Add(1)))
	check(t, os.Rename(at("swapped1"), at("x")))
	check(t, os.Rename(at("swapped2"), at("swapped1")))
	check(t, os.Rename(at("x"), at("swapped2")))
	check(t, os.Remove(at("gone")))
	check(t, os.Remove(at("kind")))
	check(t, os.Symlink("../base/kind", at("kind")))
	check(t, os.Remove(at("again"))) // two files, which are one file in the base
	put(t, at("again"), long+"linked", 0o644)
	check(t, os.Chtimes(at("again"), when, when))
	check(t, os.Chtimes(at("content"), when, when))
	shared := map[string]bool{"same": true, "d/e/same": true, "empty": true, "again": true, "attribute": true}
	if err := unix.Setxattr(at("attribute"), "user.test", []byte("1"), 0); err == nil {
		shared["attribute"] = false
	}
	want := describe(t, src)
	plain, dst := filepath.Join(top, "plain"), filepath.Join(top, "dst")
	expected, err := Copy(t.Context(), plain, src)
	check(t, err)
	stats, err := CopySharing(t.Context(), dst, src, Sharing{Base: base})
	check(t, err)
	if stats != expected {
		t.Errorf("%+v, want %+v", stats, expected)
	}
	same(t, withoutLinks(describe(t, dst)), withoutLinks(want))
	check(t, filepath.WalkDir(dst, func(path string, d os.DirEntry, err error) error {
		check(t, err)
		name, _ := filepath.Rel(dst, path)
		if !d.Type().IsRegular() {
			return nil
		}
		if other, err := os.Lstat(filepath.Join(base, name)); err == nil && other.Mode().IsRegular() {
			if got := inodeOf(t, path) == inodeOf(t, filepath.Join(base, name)); got != shared[name] {
				t.Errorf("%s is shared: %t", name, got)
			}
		}
		if inodeOf(t, path) == inodeOf(t, at(name)) {
			t.Errorf("%s is shared with the source", name)
		}
		return nil
	}))
	if inodeOf(t, filepath.Join(dst, "linked")) == inodeOf(t, filepath.Join(dst, "again")) {
		t.Error("two files of the source became one")
	}
	same(t, describe(t, src), want)
}

// TestCopySharingWithItsSource checks that the copy of a folder consists of links, and that a
// missing base changes nothing.
func TestCopySharingWithItsSource(t *testing.T) {
	top := t.TempDir()
	src := filepath.Join(top, "src")
	check(t, os.MkdirAll(filepath.Join(src, "a"), 0o755))
	put(t, filepath.Join(src, "a/file"), "text", 0o400)
	check(t, os.Link(filepath.Join(src, "a/file"), filepath.Join(src, "hard")))
	check(t, os.Symlink("a", filepath.Join(src, "link")))
	for name, base := range map[string]string{"one": src, "two": filepath.Join(top, "none"), "three": ""} {
		dst := filepath.Join(top, name)
		_, err := CopySharing(t.Context(), dst, src, Sharing{Base: base})
		check(t, err)
		for _, file := range []string{"a/file", "hard"} {
			if got := inodeOf(t, filepath.Join(dst, file)) == inodeOf(t, filepath.Join(src, file)); got != (base == src) {
				t.Errorf("%s: %s is shared: %t", name, file, got)
			}
		}
		if inodeOf(t, filepath.Join(dst, "hard")) != inodeOf(t, filepath.Join(dst, "a/file")) {
			t.Errorf("%s: the hard link became a copy", name)
		}
	}
}

// TestMarkedFolders checks that a folder is marked if, and only if, all of its files are marked.
// Copies of it must consist of links. Copies for a machine must have no marked folders.
func TestMarkedFolders(t *testing.T) {
	top := t.TempDir()
	at := func(names ...string) string { return filepath.Join(append([]string{top}, names...)...) }
	check(t, os.MkdirAll(at("src/all"), 0o755))
	check(t, os.MkdirAll(at("src/some"), 0o755))
	put(t, at("src/all/one"), "1", 0o644)
	put(t, at("src/all/two"), "2", 0o400)
	put(t, at("src/some/three"), "3", 0o644)
	put(t, at("src/some/four"), "4", 0o644)
	check(t, os.Link(at("src/some/three"), at("src/some/again")))
	marked := func(path string) bool {
		_, err := unix.Lgetxattr(path, xattr.Shared, nil)
		return err == nil
	}
	needAttributes(t, at("src/all/one"))
	content := func(name string) []string {
		return strings.Split(strings.ReplaceAll(strings.Join(withoutLinks(describe(t, at(name))), "\n"), ` `+xattr.Shared+`=""`, ""), "\n")
	}
	want := content("src")
	copies := func(dst, src string, sharing Sharing, all, some bool) {
		t.Helper()
		_, err := CopySharing(t.Context(), at(dst), at(src), sharing)
		check(t, err)
		if marked(at(dst, "all")) != all || marked(at(dst, "some")) != some {
			t.Errorf("%s: the folders are marked: %t, %t, want %t, %t", dst, marked(at(dst, "all")), marked(at(dst, "some")), all, some)
		}
		same(t, content(dst), want)
	}
	copies("plain", "src", Sharing{}, false, false)
	copies("unshared", "src", Sharing{Mark: true, Marked: true}, true, false)
	// The source must become marked during its first copy.
	constant := Sharing{Constant: true, Marked: true}
	copies("volume", "plain", constant, false, false)
	if !marked(at("plain/all")) || marked(at("plain/some")) {
		t.Errorf("the folders of the source are marked: %t, %t", marked(at("plain/all")), marked(at("plain/some")))
	}
	copies("volume2", "plain", constant, false, false)
	for _, name := range []string{"all/one", "all/two"} {
		if inodeOf(t, at("volume2", name)) != inodeOf(t, at("plain", name)) {
			t.Errorf("%s is not shared", name)
		}
	}
	if inodeOf(t, at("volume2/some/three")) == inodeOf(t, at("plain/some/three")) {
		t.Error("a file with two names is shared")
	}
	copies("snapshot", "volume2", Sharing{Mark: true, Marked: true, Base: at("plain")}, true, false)
	copies("adopted", "snapshot", Sharing{Mark: true, Marked: true, Constant: true, Base: at("snapshot")}, true, false)
}

// TestSharingWithoutAttributes checks that files are copied on a file system that has no extended
// attributes.
func TestSharingWithoutAttributes(t *testing.T) {
	top := t.TempDir()
	if err := unix.Mount("none", top, "ramfs", 0, ""); err != nil {
		testenv.Lacks(t, "the right to mount a file system: ", err)
	}
	defer func() { check(t, unix.Unmount(top, 0)) }()
	src := filepath.Join(top, "src")
	check(t, os.MkdirAll(filepath.Join(src, "d"), 0o755))
	put(t, filepath.Join(src, "a"), "alpha", 0o644)
	put(t, filepath.Join(src, "d/b"), "beta", 0o400)
	want := describe(t, src)
	for name, sharing := range map[string]Sharing{
		"volume":   {Marked: true, Constant: true},
		"snapshot": {Marked: true, Mark: true},
	} {
		dst := filepath.Join(top, name)
		_, err := CopySharing(t.Context(), dst, src, sharing)
		check(t, err)
		same(t, describe(t, dst), want)
		for _, file := range []string{"a", "d/b"} {
			if inodeOf(t, filepath.Join(dst, file)) == inodeOf(t, filepath.Join(src, file)) {
				t.Errorf("%s: %s is shared", name, file)
			}
		}
	}
}
