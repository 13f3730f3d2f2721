package agent

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/agent/volume/volumetest"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// change calls PUT /volume/change. It returns the counts of a successful call, or the text of the
// error.
func (s *stored) change(t testing.TB, archive []byte) (status int, path, said string) {
	t.Helper()
	r := s.call(t, http.MethodPut, "/volume/change", nil, bytes.NewReader(archive))
	if status, path, said = ended(r); status == 200 {
		said = r.Result().Trailer.Get(countsTrailer)
	}
	return status, path, said
}

func TestChange(t *testing.T) {
	testenv.NeedsRoot(t, "change owners")
	s := newStored(t)
	volumetest.Put(t, s.files+"/old", "old")
	volumetest.Put(t, s.files+"/gone", "gone")
	volumetest.Put(t, s.files+"/kept", "kept")
	volumetest.Put(t, s.files+"/full/file", "x")
	os.Chown(s.files+"/kept", 12, 34)
	os.Chmod(s.files+"/kept", 0o751|os.ModeSetuid)
	os.Chown(s.files+"/old", 12, 34)
	os.Symlink("nowhere", s.files+"/link")
	os.Mkdir(s.files+"/empty", 0o755)
	status, path, counts := s.change(t, volumetest.Archive(t,
		volumetest.Edit{Path: "new", Text: "new", Mode: 0o4755},
		volumetest.Edit{Path: "old", Text: "newer", Mode: 0o600},
		volumetest.Edit{Path: "kept", Text: "changed", Mode: 0o600, Keep: true},
		volumetest.Edit{Path: "keep-what", Text: "nothing", Mode: 0o604, Keep: true},
		volumetest.Edit{Path: "deep/er/file", Text: "deep"},
		volumetest.Edit{Op: "folder", Path: "made", Mode: 0o1777},
		volumetest.Edit{Op: "folder", Path: "full", Mode: 0o700},
		volumetest.Edit{Op: "folder", Path: "empty", Mode: 0o711, Keep: true},
		volumetest.Edit{Op: "symlink", Path: "link", Text: "/anywhere/at all"},
		volumetest.Edit{Op: "link", Path: "hard", Text: "full/file"},
		volumetest.Edit{Op: "link", Path: "hard-new", Text: "new"},
		volumetest.Edit{Op: "mode", Path: "full/file", Mode: 0o640},
		volumetest.Edit{Op: "delete", Path: "gone"},
		volumetest.Edit{Path: "late", Text: strings.Repeat("late", 100_000)},
		volumetest.Edit{Path: "ä\xff\n" + strings.Repeat("x", 200), Text: "strange"},
	))
	if status != 200 || counts != "8 4 1 400033" {
		t.Fatalf("%d %q %q", status, path, counts)
	}
	file := func(size int, content string) string {
		return fmt.Sprintf("%d %d %.8x", size, volumetest.When.UnixNano(), sha256.Sum256([]byte(content)))
	}
	old := fmt.Sprintf("1 %d %.8x", mtime(t, s.files+"/full/file"), sha256.Sum256([]byte("x"))) // the change does not write this file
	want := []string{
		`"." drwxr-xr-x 0:0`,
		`"deep" drwxr-xr-x 0:0`,
		`"deep/er" drwxr-xr-x 0:0`,
		`"deep/er/file" -rw-r--r-- 0:0 ` + file(4, "deep"),
		`"empty" drwxr-xr-x 0:0`,
		`"full" drwx------ 0:0`,
		`"full/file" -rw-r----- 0:0 ` + old + ` as "full/file"`,
		`"hard" -rw-r----- 0:0 ` + old + ` as "full/file"`,
		`"hard-new" urwxr-xr-x 0:0 ` + file(3, "new") + ` as "hard-new"`,
		`"keep-what" -rw----r-- 0:0 ` + file(7, "nothing"),
		`"kept" urwxr-x--x 12:34 ` + file(7, "changed"),
		`"late" -rw-r--r-- 0:0 ` + file(400_000, strings.Repeat("late", 100_000)),
		`"link" Lrwxrwxrwx 0:0 "/anywhere/at all"`,
		`"made" dtrwxrwxrwx 0:0`,
		`"new" urwxr-xr-x 0:0 ` + file(3, "new") + ` as "hard-new"`,
		`"old" -rw------- 0:0 ` + file(5, "newer"),
		`"ä\xff\n` + strings.Repeat("x", 200) + `" -rw-r--r-- 0:0 ` + file(7, "strange"),
	}
	if got := volumetest.Tree(t, s.files); got != strings.Join(want, "\n")+"\n" {
		t.Errorf("it is\n%s\nand not\n%s", got, strings.Join(want, "\n"))
	}
	volumetest.NothingPending(t, s.dir)
}

func mtime(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime().UnixNano()
}

// TestOperationsApplyInOrder checks that operations are applied in the order of the
// archive. Each case works only in that order.
func TestOperationsApplyInOrder(t *testing.T) {
	for name, c := range map[string]struct {
		entries []volumetest.Edit
		counts  string
		want    string // contents of entries, except "dir", "dir/file" and "file"; "-" marks an entry that must be missing
	}{
		"a folder becomes a file":                     {[]volumetest.Edit{{Op: "delete", Path: "dir/file"}, {Op: "delete", Path: "dir"}, {Path: "dir", Text: "x"}}, "1 0 2 1", "dir=x"},
		"a file becomes a folder":                     {[]volumetest.Edit{{Op: "delete", Path: "file"}, {Path: "file/below", Text: "x"}}, "1 0 1 1", "file/below=x"},
		"a folder is created again":                   {[]volumetest.Edit{{Op: "delete", Path: "dir/file"}, {Op: "delete", Path: "dir"}, {Path: "dir/new", Text: "x"}}, "1 0 2 1", "dir/new=x -dir/file"},
		"a new file is deleted":                       {[]volumetest.Edit{{Path: "new", Text: "x"}, {Op: "delete", Path: "new"}}, "1 0 1 1", "-new"},
		"a new folder is deleted":                     {[]volumetest.Edit{{Path: "new/file", Text: "x"}, {Op: "delete", Path: "new/file"}, {Op: "delete", Path: "new"}}, "1 0 2 1", "-new"},
		"a file is created twice":                     {[]volumetest.Edit{{Path: "file", Text: "x"}, {Path: "file", Text: "yy"}}, "0 2 0 3", "file=yy"},
		"a file moves":                                {[]volumetest.Edit{{Op: "link", Path: "moved", Text: "file"}, {Op: "delete", Path: "file"}}, "1 0 1 0", "moved=file -file"},
		"two files swap names":                        {[]volumetest.Edit{{Op: "link", Path: "t", Text: "file"}, {Op: "link", Path: "file", Text: "dir/file"}, {Op: "link", Path: "dir/file", Text: "t"}, {Op: "delete", Path: "t"}}, "1 2 1 0", "file=below dir/file=file -t"},
		"a link to itself":                            {[]volumetest.Edit{{Op: "link", Path: "file", Text: "file"}}, "0 1 0 0", "file=file"},
		"a link to the same":                          {[]volumetest.Edit{{Op: "link", Path: "a", Text: "file"}, {Op: "link", Path: "a", Text: "file"}}, "1 1 0 0", "a=file"},
		"a link to a replaced file":                   {[]volumetest.Edit{{Path: "file", Text: "x"}, {Op: "link", Path: "a", Text: "file"}, {Path: "file", Text: "y"}}, "1 2 0 2", "a=x file=y"},
		"a mode of a new file":                        {[]volumetest.Edit{{Path: "new", Text: "x"}, {Op: "mode", Path: "new", Mode: 0o600}}, "1 1 0 1", "new=x"},
		"a mode of a link to the old":                 {[]volumetest.Edit{{Op: "link", Path: "a", Text: "file"}, {Op: "mode", Path: "a", Mode: 0o600}}, "1 1 0 0", "a=file"},
		"nothing":                                     {nil, "0 0 0 0", ""},
		"a closed folder with content":                {[]volumetest.Edit{{Op: "folder", Path: "closed", Mode: 0o555}, {Path: "closed/file", Text: "x"}}, "2 0 0 1", "closed/file=x"},
		"a folder that is closed later":               {[]volumetest.Edit{{Op: "folder", Path: "new"}, {Op: "folder", Path: "new", Mode: 0o500}, {Path: "new/file", Text: "x"}}, "2 0 0 1", "new/file=x"},
		"a folder that was closed":                    {[]volumetest.Edit{{Op: "folder", Path: "new", Mode: 0o500}, {Op: "delete", Path: "new"}, {Path: "new", Text: "x"}}, "2 0 1 1", "new=x"},
		"an expected state that this change replaces": {[]volumetest.Edit{{Path: "new", Text: "x"}, {Path: "new", Text: "y", Expect: "absent"}}, "1 1 0 2", "new=y"},
		"a file is kept twice":                        {[]volumetest.Edit{{Path: "file", Text: "x", Mode: 0o600, Keep: true}, {Path: "file", Text: "y", Mode: 0o600, Keep: true}}, "0 2 0 2", "file=y"},
		"a link that is kept":                         {[]volumetest.Edit{{Op: "symlink", Path: "file", Text: "dir/file", Keep: true}}, "0 1 0 0", "file=below"},
		"a file over a link":                          {[]volumetest.Edit{{Op: "symlink", Path: "s", Text: "file"}, {Path: "s", Text: "x", Keep: true}}, "1 1 0 1", "s=x file=file"},
		"a folder goes by a folder's name":            {[]volumetest.Edit{{Op: "delete", Path: "dir/file"}, {Op: "delete", Path: "dir/", Typing: tar.TypeDir}}, "0 0 2 0", "-dir"},
		"a folder put on one keeps":                   {[]volumetest.Edit{{Op: "folder", Path: "dir", Mode: 0o711}}, "0 0 0 0", "dir/file=below"},
		"a missing folder is made by all":             {[]volumetest.Edit{{Path: "a/b/c", Text: "x"}, {Path: "a/b/d", Text: "y"}, {Op: "folder", Path: "a", Mode: 0o700}}, "2 0 0 2", "a/b/c=x a/b/d=y"},
	} {
		t.Run(name, func(t *testing.T) {
			s := storedIn(t, volumetest.InMemory(t))
			volumetest.Put(t, s.files+"/file", "file")
			volumetest.Put(t, s.files+"/dir/file", "below")
			status, path, said := s.change(t, volumetest.Archive(t, c.entries...))
			if status != 200 || said != c.counts {
				t.Fatalf("%d %q %q", status, path, said)
			}
			for what := range strings.FieldsSeq(c.want) {
				if absent, ok := strings.CutPrefix(what, "-"); ok {
					if _, err := os.Lstat(filepath.Join(s.files, absent)); !errors.Is(err, os.ErrNotExist) {
						t.Errorf("%s exists: %v", absent, err)
					}
					continue
				}
				name, content, _ := strings.Cut(what, "=")
				if b, err := os.ReadFile(filepath.Join(s.files, name)); err != nil || string(b) != content {
					t.Errorf("%s is %q, %v", name, b, err)
				}
			}
			for _, e := range c.entries {
				if e.Op == "mode" || e.Op == "folder" && e.Mode != 0 && !strings.Contains(c.want, e.Path+"=") {
					if info, err := os.Stat(filepath.Join(s.files, e.Path)); err != nil || int64(info.Mode().Perm()) != e.Mode {
						if name != "a folder that is closed later" || int64(info.Mode().Perm()) != 0o500 {
							t.Errorf("%s: %v, %v", e.Path, info.Mode(), err)
						}
					}
				}
			}
			volumetest.NothingPending(t, s.dir)
		})
	}
}

// markOf returns the mark of the file at a path.
func markOf(t testing.TB, path string) listing.Mark {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return listing.Mark{Inode: st.Ino, Size: st.Size, ModTime: st.Mtim.Nano(), ChangeTime: st.Ctim.Nano(), Mode: st.Mode & 0o7777}
}

// TestRejectedChanges checks that a rejected change has no effect, and that its error names
// the path and the cause.
func TestRejectedChanges(t *testing.T) {
	s := storedIn(t, volumetest.InMemory(t))
	volumetest.Put(t, s.files+"/file", "file")
	volumetest.Put(t, s.files+"/dir/file", "below")
	os.Symlink("dir", s.files+"/link")
	os.Symlink("/", s.files+"/out")
	mark := markOf(t, s.files+"/file")
	other := func(change func(*listing.Mark)) string {
		m := mark
		change(&m)
		return m.String()
	}
	before := volumetest.Tree(t, s.dir)
	for name, c := range map[string]struct {
		entry  volumetest.Edit
		status int
		says   string
	}{
		"a file on a folder":            {volumetest.Edit{Path: "dir", Text: "x"}, 409, "it is a directory"},
		"a link on a folder":            {volumetest.Edit{Op: "symlink", Path: "dir", Text: "x"}, 409, "it is a directory"},
		"a hard link on a folder":       {volumetest.Edit{Op: "link", Path: "dir", Text: "file"}, 409, "it is a directory"},
		"a folder on a file":            {volumetest.Edit{Op: "folder", Path: "file"}, 409, "not a directory"},
		"a folder on a link":            {volumetest.Edit{Op: "folder", Path: "link"}, 409, "not a directory"},
		"below a file":                  {volumetest.Edit{Path: "file/x", Text: "x"}, 409, `parent "file" is not a directory`},
		"below a link":                  {volumetest.Edit{Path: "link/x", Text: "x"}, 409, `"link" above it is a symbolic link`},
		"below a link to outside":       {volumetest.Edit{Path: "out/tmp/x", Text: "x"}, 409, "symbolic link"},
		"delete a missing file":         {volumetest.Edit{Op: "delete", Path: "none"}, 409, "does not exist"},
		"delete below nothing":          {volumetest.Edit{Op: "delete", Path: "none/none"}, 409, "does not exist"},
		"delete below a link":           {volumetest.Edit{Op: "delete", Path: "link/file"}, 409, "symbolic link"},
		"delete a full folder":          {volumetest.Edit{Op: "delete", Path: "dir"}, 409, "not empty"},
		"a mode of nothing":             {volumetest.Edit{Op: "mode", Path: "none"}, 409, "does not exist"},
		"a mode of a link":              {volumetest.Edit{Op: "mode", Path: "link"}, 409, "only files and directories"},
		"a hard link to nothing":        {volumetest.Edit{Op: "link", Path: "x", Text: "none"}, 409, `"none" does not exist`},
		"a hard link to a folder":       {volumetest.Edit{Op: "link", Path: "x", Text: "dir"}, 409, `"dir" is a directory`},
		"a hard link below a link":      {volumetest.Edit{Op: "link", Path: "x", Text: "link/file"}, 409, "symbolic link"},
		"a missing file":                {volumetest.Edit{Path: "x", Expect: mark.String()}, 409, "no longer exists"},
		"an existing file":              {volumetest.Edit{Path: "file", Expect: "absent"}, 409, "exists already"},
		"another inode":                 {volumetest.Edit{Path: "file", Expect: other(func(m *listing.Mark) { m.Inode++ })}, 409, "has changed"},
		"another size":                  {volumetest.Edit{Path: "file", Expect: other(func(m *listing.Mark) { m.Size++ })}, 409, "has changed"},
		"another time":                  {volumetest.Edit{Path: "file", Expect: other(func(m *listing.Mark) { m.ModTime++ })}, 409, "has changed"},
		"another time of change":        {volumetest.Edit{Op: "delete", Path: "file", Expect: other(func(m *listing.Mark) { m.ChangeTime-- })}, 409, "has changed"},
		"another mode":                  {volumetest.Edit{Op: "mode", Path: "file", Expect: other(func(m *listing.Mark) { m.Mode ^= 1 })}, 409, "has changed"},
		"an unknown mark":               {volumetest.Edit{Path: "file", Expect: "yesterday"}, 400, "five numbers"},
		"an unknown operation":          {volumetest.Edit{Op: "rename", Path: "file"}, 400, "put, delete or mode"},
		"an invalid keep value":         {volumetest.Edit{Path: "file", Records: map[string]string{"PYRO.keep": "yes"}}, 400, "PYRO.keep"},
		"up":                            {volumetest.Edit{Path: "../x", Text: "x"}, 400, "relative"},
		"up from below":                 {volumetest.Edit{Path: "dir/../../x", Text: "x"}, 400, "relative"},
		"absolute":                      {volumetest.Edit{Path: "/etc/x", Text: "x"}, 400, "relative"},
		"here":                          {volumetest.Edit{Path: "./x", Text: "x"}, 400, "relative"},
		"the workspace itself":          {volumetest.Edit{Op: "delete", Path: "."}, 400, "relative"},
		"no name":                       {volumetest.Edit{Op: "folder", Path: ""}, 400, "itself"},
		"two slashes":                   {volumetest.Edit{Path: "dir//x", Text: "x"}, 400, "relative"},
		"too long a path":               {volumetest.Edit{Path: strings.Repeat("x/", 2048) + "x"}, 400, "4096"},
		"too long a name":               {volumetest.Edit{Path: strings.Repeat("x", 256)}, 409, "too long"},
		"a hard link to outside":        {volumetest.Edit{Op: "link", Path: "x", Text: "../pending/x"}, 400, "relative"},
		"a hard link that is absolute":  {volumetest.Edit{Op: "link", Path: "x", Text: "/etc/passwd"}, 400, "relative"},
		"a link without a target":       {volumetest.Edit{Op: "symlink", Path: "x", Text: ""}, 400, "target"},
		"a link with too long a target": {volumetest.Edit{Op: "symlink", Path: "x", Text: strings.Repeat("x", 4097)}, 400, "target"},
		"a pipe":                        {volumetest.Edit{Path: "x", Typing: tar.TypeFifo}, 400, "only files"},
		"a device":                      {volumetest.Edit{Path: "x", Typing: tar.TypeChar}, 400, "only files"},
	} {
		for _, entries := range [][]volumetest.Edit{{c.entry}, {{Path: "first/x", Text: "x"}, {Path: "file", Text: "changed", Mode: 0o600}, {Op: "delete", Path: "dir/file"}, {Path: "dir/file", Text: "again"}, c.entry}} {
			if len(entries) > 1 && (name == "delete a full folder" || name == "an existing file") {
				continue
			}
			status, path, said := s.change(t, volumetest.Archive(t, entries...))
			if want := strings.TrimSuffix(c.entry.Path, "/"); status != c.status || strings.TrimSuffix(path, "/") != want || !strings.Contains(said, c.says) {
				t.Errorf("%s: %d %.100q %q", name, status, path, said)
			}
			if after := volumetest.Tree(t, s.dir); after != before {
				t.Fatalf("%s: got the tree\n%s", name, after)
			}
		}
	}
	// A change succeeds only if all entries are as expected.
	if status, path, said := s.change(t, volumetest.Archive(t, volumetest.Edit{Path: "file", Text: "x", Expect: mark.String()}, volumetest.Edit{Path: "new", Expect: "absent"}, volumetest.Edit{Path: "file/x/y", Expect: "absent"})); status != 409 || path != "file/x/y" {
		t.Errorf("%d %q %q", status, path, said)
	}
	if status, path, said := s.change(t, volumetest.Archive(t, volumetest.Edit{Path: "file", Text: "x", Expect: mark.String()}, volumetest.Edit{Path: "new", Expect: "absent"})); status != 200 {
		t.Errorf("%d %q %q", status, path, said)
	}
}

// TestInvalidArchives checks that an invalid or incomplete archive changes nothing.
func TestInvalidArchives(t *testing.T) {
	s := storedIn(t, volumetest.InMemory(t))
	volumetest.Put(t, s.files+"/file", "file")
	before := volumetest.Tree(t, s.dir)
	whole := volumetest.Archive(t, volumetest.Edit{Path: "file", Text: strings.Repeat("x", 2000)}, volumetest.Edit{Path: "new", Text: "y"})
	for n := 1; n < len(whole); n += 100 {
		if status, _, said := s.change(t, whole[:n]); status != 400 {
			t.Errorf("cut at %d: %d %q", n, status, said)
		}
	}
	for name, body := range map[string]io.Reader{
		"not an archive":                 strings.NewReader(strings.Repeat("no archive", 1000)),
		"a failing reader":               io.MultiReader(bytes.NewReader(whole[:1500]), failingReader{errors.New("the link broke")}),
		"a reader that fails at the end": io.MultiReader(bytes.NewReader(whole), failingReader{errors.New("the link broke")}),
		"data after the end":             io.MultiReader(bytes.NewReader(whole), io.LimitReader(zeroes{}, 2<<20)),
	} {
		if r := s.call(t, http.MethodPut, "/volume/change", nil, body); r.Code == 200 {
			t.Errorf("%s was accepted", name)
		}
	}
	if after := volumetest.Tree(t, s.dir); after != before {
		t.Errorf("it is\n%s", after)
	}
	if status, _, said := s.change(t, append(whole, make([]byte, 9000)...)); status != 200 || said != "1 1 0 2001" {
		t.Errorf("archive with tar padding: status %d, response %q", status, said)
	}
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func BenchmarkChange(b *testing.B) {
	var edits []volumetest.Edit
	for i := range 20_000 {
		edits = append(edits, volumetest.Edit{Path: fmt.Sprintf("many/group-%d/package-%d/some_source_file_%d.go", i/1000, i/20, i), Text: fmt.Sprintf("package p%d\n", i)})
	}
	archive := volumetest.Archive(b, edits...)
	b.Run("change", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			s := storedIn(b, volumetest.InMemory(b))
			b.StartTimer()
			if _, err := s.volume.Change(context.Background(), bytes.NewReader(archive)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("tar", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			dir := volumetest.InMemory(b)
			b.StartTimer()
			cmd := exec.Command("tar", "-xpf", "-", "-C", dir)
			cmd.Stdin = bytes.NewReader(archive)
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
	})
}
