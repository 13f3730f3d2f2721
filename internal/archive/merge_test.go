package archive

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// TestMerge unpacks a stream into a folder that has files, folders and links already.
func TestMerge(t *testing.T) {
	top := t.TempDir()
	target := filepath.Join(top, "target")
	check(t, os.MkdirAll(filepath.Join(target, "sub/kept"), 0o700))
	put(t, filepath.Join(target, "old"), "older", 0o600)
	put(t, filepath.Join(top, "precious"), "precious", 0o600)
	check(t, os.Symlink("../precious", filepath.Join(target, "link")))
	setuid := file("setuid")
	setuid.Mode, setuid.Uid, setuid.PAXRecords = 0o4755, 1234, map[string]string{"SCHILY.xattr.user.x": "y"}
	summary, err := Merge(t.Context(), bytes.NewReader(archiveOf(t, dir("."), file("./old"), dir("./sub"), file("./sub/new"), file("link"), link("out", "/etc"), hard("again", "./old"), setuid)), target, Limits{})
	check(t, err)
	if summary != (Summary{Files: 4, Symlinks: 1, HardLinks: 1, OutwardLinks: 1, Bytes: 20}) {
		t.Errorf("%+v", summary)
	}
	for name, mode := range map[string]os.FileMode{"old": 0o644, "sub": os.ModeDir | 0o700, "sub/kept": os.ModeDir | 0o700, "link": 0o644, "again": 0o644, "setuid": 0o755} {
		if info, err := os.Lstat(filepath.Join(target, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(target, "setuid"), &st); err != nil || int(st.Uid) != os.Geteuid() {
		t.Errorf("the owner is %d, %v", st.Uid, err)
	}
	if b, err := os.ReadFile(filepath.Join(top, "precious")); string(b) != "precious" {
		t.Errorf("file outside: got %q, %v, want it unchanged", b, err)
	}
}

// TestHostileMerges checks that hostile streams change nothing outside of the folder.
func TestHostileMerges(t *testing.T) {
	for name, c := range map[string]struct {
		entries []entry
		kind    fault.Kind
		says    string
	}{
		"a name that climbs":        {[]entry{file("../precious")}, fault.Invalid, "its name contains .."},
		"a name that climbs later":  {[]entry{file("a/../../precious")}, fault.Invalid, "its name contains .."},
		"an absolute name":          {[]entry{file("/precious")}, fault.Invalid, "its name is absolute"},
		"a file at the top":         {[]entry{file(".")}, fault.Invalid, "only a directory can be the top"},
		"a file through a link":     {[]entry{link("l", ".."), file("l/precious")}, "", ""},
		"a file through an old one": {[]entry{file("up/precious")}, "", ""},
		"through an absolute link":  {[]entry{link("l", "TOP"), file("l/precious")}, fault.Precondition, "not a directory"},
		"a hard link out":           {[]entry{hard("h", "../precious")}, fault.Invalid, "not an entry"},
		"a hard link by a link":     {[]entry{link("l", "../precious"), hard("h", "l"), file("h")}, "", ""},
		"a device":                  {[]entry{{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}}, fault.Invalid, "devices and FIFOs"},
		"a FIFO":                    {[]entry{{Typeflag: tar.TypeFifo, Name: "p"}}, fault.Invalid, "devices and FIFOs"},
		"a file over a folder":      {[]entry{file("sub")}, fault.Precondition, `entry "sub": it is a directory`},
		"a folder over a file":      {[]entry{dir("file")}, fault.Precondition, "not a directory"},
		"an unknown kind":           {[]entry{{Typeflag: 'X', Name: "x"}}, fault.Invalid, "unknown entry type"},
	} {
		top := t.TempDir()
		target := filepath.Join(top, "target")
		check(t, os.MkdirAll(filepath.Join(target, "sub"), 0o755))
		check(t, os.Symlink("..", filepath.Join(target, "up")))
		put(t, filepath.Join(target, "file"), "file", 0o600)
		put(t, filepath.Join(top, "precious"), "precious", 0o600)
		for i := range c.entries {
			if c.entries[i].Linkname == "TOP" {
				c.entries[i].Linkname = top
			}
		}
		_, err := Merge(t.Context(), bytes.NewReader(archiveOf(t, c.entries...)), target, Limits{})
		if fault.KindOf(err) != c.kind && !(c.kind == "" && err == nil) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got error %v of kind %q", name, err, fault.KindOf(err))
		}
		only(t, top, "precious", "target")
		if b, err := os.ReadFile(filepath.Join(top, "precious")); string(b) != "precious" {
			t.Errorf("%s: file outside: got %q, %v, want it unchanged", name, b, err)
		}
	}
	top := t.TempDir()
	if _, err := Merge(t.Context(), bytes.NewReader(archiveOf(t, file("a"), file("b"))), top, Limits{Bytes: 9}); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("too much: %v", err)
	}
	if _, err := Merge(t.Context(), bytes.NewReader(archiveOf(t, file("a"), file("b"))), top, Limits{Entries: 1}); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("too many: %v", err)
	}
}

// TestWritePath checks the stream of WritePath for a folder, a file, links and invalid paths.
func TestWritePath(t *testing.T) {
	from := t.TempDir()
	check(t, os.MkdirAll(filepath.Join(from, "dir/sub"), 0o755))
	check(t, os.Chmod(filepath.Join(from, "dir"), 0o750))
	put(t, filepath.Join(from, "dir/sub/file"), "12345", 0o640)
	check(t, os.Symlink("dir", filepath.Join(from, "link")))
	check(t, unix.Mkfifo(filepath.Join(from, "pipe"), 0o600))
	for _, c := range []struct {
		path, as string
		names    []string
		summary  Summary
	}{
		{"dir", "", []string{"./", "sub/", "sub/file"}, Summary{Files: 1, Directories: 1, Bytes: 5}},
		{"link/", "", []string{"./", "sub/", "sub/file"}, Summary{Files: 1, Directories: 1, Bytes: 5}},
		{"dir/sub/file", "new", []string{"new"}, Summary{Files: 1, Bytes: 5}},
		{"link", "l", []string{"l"}, Summary{Symlinks: 1}},
	} {
		var stream bytes.Buffer
		summary, err := WritePath(t.Context(), &stream, from+"/"+c.path, c.as, Policy{Owners: true})
		check(t, err)
		var names []string
		for r := tar.NewReader(&stream); ; {
			h, err := r.Next()
			if err != nil {
				break
			}
			names = append(names, h.Name)
			if h.Uid != os.Getuid() {
				t.Errorf("%s: the owner of %s is %d", c.path, h.Name, h.Uid)
			}
			if h.Name == "./" && h.Mode != 0o750 {
				t.Errorf("%s: the mode of the folder is %o", c.path, h.Mode)
			}
		}
		if strings.Join(names, " ") != strings.Join(c.names, " ") || summary != c.summary {
			t.Errorf("%s: %q, %+v", c.path, names, summary)
		}
	}
	for path, kind := range map[string]fault.Kind{"none": fault.NotFound, "pipe": fault.Unsupported} {
		if _, err := WritePath(t.Context(), &bytes.Buffer{}, from+"/"+path, "x", Policy{}); fault.KindOf(err) != kind {
			t.Errorf("%s: %v", path, err)
		}
	}
}
