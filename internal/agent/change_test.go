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
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// edit is an operation of a change in a test.
type edit struct {
	op      string // of PYRO.op; "link", "symlink", "folder" and "" are puts
	path    string
	text    string // content, or target
	mode    int64
	expect  string
	keep    bool
	typing  byte // another type than the operation has
	records map[string]string
}

// when is the time of everything that is put.
var when = time.Unix(1700000000, 123456789)

// archiveOf makes the archive of a change.
func archiveOf(t testing.TB, entries ...edit) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: e.path, Mode: e.mode, ModTime: when, Format: tar.FormatPAX, PAXRecords: map[string]string{}}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		switch e.op {
		case "link":
			h.Typeflag, h.Linkname = tar.TypeLink, e.text
		case "symlink":
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.text
		case "folder":
			h.Typeflag, h.Name = tar.TypeDir, e.path+"/"
			if e.mode == 0 {
				h.Mode = 0o755
			}
		case "":
			h.Size = int64(len(e.text))
		default:
			h.PAXRecords[recordOp] = e.op
		}
		if e.typing != 0 {
			h.Typeflag = e.typing
		}
		if e.expect != "" {
			h.PAXRecords[recordExpect] = e.expect
		}
		if e.keep {
			h.PAXRecords[recordKeep] = "1"
		}
		for name, value := range e.records {
			h.PAXRecords[name] = value
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatalf("%+v: %v", e, err)
		}
		if h.Size > 0 {
			io.WriteString(w, e.text)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// change makes a change by a call.
func (s *stored) change(t testing.TB, archive []byte) (status int, path, said string) {
	t.Helper()
	r := s.call(t, http.MethodPut, "/volume/change", nil, bytes.NewReader(archive))
	path, _ = url.QueryUnescape(r.Header().Get(pathHeader))
	if r.Code == 200 {
		return r.Code, path, r.Result().Trailer.Get(countsTrailer)
	}
	return r.Code, path, strings.TrimSpace(r.Body.String())
}

func TestChange(t *testing.T) {
	testenv.NeedsRoot(t, "change owners")
	s := newStored(t)
	put(t, s.files+"/old", "old")
	put(t, s.files+"/gone", "gone")
	put(t, s.files+"/kept", "kept")
	put(t, s.files+"/full/file", "x")
	os.Chown(s.files+"/kept", 12, 34)
	os.Chmod(s.files+"/kept", 0o751|os.ModeSetuid)
	os.Chown(s.files+"/old", 12, 34)
	os.Symlink("nowhere", s.files+"/link")
	os.Mkdir(s.files+"/empty", 0o755)
	status, path, counts := s.change(t, archiveOf(t,
		edit{path: "new", text: "new", mode: 0o4755},
		edit{path: "old", text: "newer", mode: 0o600},
		edit{path: "kept", text: "changed", mode: 0o600, keep: true},
		edit{path: "keep-what", text: "nothing", mode: 0o604, keep: true},
		edit{path: "deep/er/file", text: "deep"},
		edit{op: "folder", path: "made", mode: 0o1777},
		edit{op: "folder", path: "full", mode: 0o700},
		edit{op: "folder", path: "empty", mode: 0o711, keep: true},
		edit{op: "symlink", path: "link", text: "/anywhere/at all"},
		edit{op: "link", path: "hard", text: "full/file"},
		edit{op: "link", path: "hard-new", text: "new"},
		edit{op: "mode", path: "full/file", mode: 0o640},
		edit{op: "delete", path: "gone"},
		edit{path: "late", text: strings.Repeat("late", 100_000)},
		edit{path: "ä\xff\n" + strings.Repeat("x", 200), text: "strange"},
	))
	if status != 200 || counts != "8 6 1 400033" {
		t.Fatalf("%d %q %q", status, path, counts)
	}
	file := func(size int, content string) string {
		return fmt.Sprintf("%d %d %.8x", size, when.UnixNano(), sha256.Sum256([]byte(content)))
	}
	old := fmt.Sprintf("1 %d %.8x", mtime(t, s.files+"/full/file"), sha256.Sum256([]byte("x"))) // which was not written
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
	if got := tree(t, s.files); got != strings.Join(want, "\n")+"\n" {
		t.Errorf("it is\n%s\nand not\n%s", got, strings.Join(want, "\n"))
	}
	nothingPending(t, s.dir)
}

func mtime(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime().UnixNano()
}

// TestOperationsAreTakenInTheirOrder has operations that only go one after the other.
func TestOperationsAreTakenInTheirOrder(t *testing.T) {
	for name, c := range map[string]struct {
		entries []edit
		counts  string
		want    string // what is there, besides "dir" with "dir/file", and "file"; - before what is not
	}{
		"a folder becomes a file":          {[]edit{{op: "delete", path: "dir/file"}, {op: "delete", path: "dir"}, {path: "dir", text: "x"}}, "1 0 2 1", "dir=x"},
		"a file becomes a folder":          {[]edit{{op: "delete", path: "file"}, {path: "file/below", text: "x"}}, "1 0 1 1", "file/below=x"},
		"a folder comes again":             {[]edit{{op: "delete", path: "dir/file"}, {op: "delete", path: "dir"}, {path: "dir/new", text: "x"}}, "1 0 2 1", "dir/new=x -dir/file"},
		"a new file goes again":            {[]edit{{path: "new", text: "x"}, {op: "delete", path: "new"}}, "1 0 1 1", "-new"},
		"a new folder goes again":          {[]edit{{path: "new/file", text: "x"}, {op: "delete", path: "new/file"}, {op: "delete", path: "new"}}, "1 0 2 1", "-new"},
		"a file comes twice":               {[]edit{{path: "file", text: "x"}, {path: "file", text: "yy"}}, "0 2 0 3", "file=yy"},
		"a file moves":                     {[]edit{{op: "link", path: "moved", text: "file"}, {op: "delete", path: "file"}}, "1 0 1 0", "moved=file -file"},
		"two files change places":          {[]edit{{op: "link", path: "t", text: "file"}, {op: "link", path: "file", text: "dir/file"}, {op: "link", path: "dir/file", text: "t"}, {op: "delete", path: "t"}}, "1 2 1 0", "file=below dir/file=file -t"},
		"a link to itself":                 {[]edit{{op: "link", path: "file", text: "file"}}, "0 1 0 0", "file=file"},
		"a link to the same":               {[]edit{{op: "link", path: "a", text: "file"}, {op: "link", path: "a", text: "file"}}, "1 1 0 0", "a=file"},
		"a link to what was replaced":      {[]edit{{path: "file", text: "x"}, {op: "link", path: "a", text: "file"}, {path: "file", text: "y"}}, "1 2 0 2", "a=x file=y"},
		"a mode of what is new":            {[]edit{{path: "new", text: "x"}, {op: "mode", path: "new", mode: 0o600}}, "1 1 0 1", "new=x"},
		"a mode of a link to the old":      {[]edit{{op: "link", path: "a", text: "file"}, {op: "mode", path: "a", mode: 0o600}}, "1 1 0 0", "a=file"},
		"nothing":                          {nil, "0 0 0 0", ""},
		"a closed folder with content":     {[]edit{{op: "folder", path: "closed", mode: 0o555}, {path: "closed/file", text: "x"}}, "2 0 0 1", "closed/file=x"},
		"a folder that is closed later":    {[]edit{{op: "folder", path: "new"}, {op: "folder", path: "new", mode: 0o500}, {path: "new/file", text: "x"}}, "2 1 0 1", "new/file=x"},
		"a folder that was closed":         {[]edit{{op: "folder", path: "new", mode: 0o500}, {op: "delete", path: "new"}, {path: "new", text: "x"}}, "2 0 1 1", "new=x"},
		"what is expected was before":      {[]edit{{path: "new", text: "x"}, {path: "new", text: "y", expect: "absent"}}, "1 1 0 2", "new=y"},
		"a file is kept twice":             {[]edit{{path: "file", text: "x", mode: 0o600, keep: true}, {path: "file", text: "y", mode: 0o600, keep: true}}, "0 2 0 2", "file=y"},
		"a link that is kept":              {[]edit{{op: "symlink", path: "file", text: "dir/file", keep: true}}, "0 1 0 0", "file=below"},
		"what is put where a link is":      {[]edit{{op: "symlink", path: "s", text: "file"}, {path: "s", text: "x", keep: true}}, "1 1 0 1", "s=x file=file"},
		"a folder goes by a folder's name": {[]edit{{op: "delete", path: "dir/file"}, {op: "delete", path: "dir/", typing: tar.TypeDir}}, "0 0 2 0", "-dir"},
		"a folder put on one keeps":        {[]edit{{op: "folder", path: "dir", mode: 0o711}}, "0 1 0 0", "dir/file=below"},
		"a missing folder is made by all":  {[]edit{{path: "a/b/c", text: "x"}, {path: "a/b/d", text: "y"}, {op: "folder", path: "a", mode: 0o700}}, "2 1 0 2", "a/b/c=x a/b/d=y"},
	} {
		t.Run(name, func(t *testing.T) {
			s := storedIn(t, inMemory(t))
			put(t, s.files+"/file", "file")
			put(t, s.files+"/dir/file", "below")
			status, path, said := s.change(t, archiveOf(t, c.entries...))
			if status != 200 || said != c.counts {
				t.Fatalf("%d %q %q", status, path, said)
			}
			for what := range strings.FieldsSeq(c.want) {
				if absent, ok := strings.CutPrefix(what, "-"); ok {
					if _, err := os.Lstat(filepath.Join(s.files, absent)); !errors.Is(err, os.ErrNotExist) {
						t.Errorf("%s is there: %v", absent, err)
					}
					continue
				}
				name, content, _ := strings.Cut(what, "=")
				if b, err := os.ReadFile(filepath.Join(s.files, name)); err != nil || string(b) != content {
					t.Errorf("%s is %q, %v", name, b, err)
				}
			}
			for _, e := range c.entries {
				if e.op == "mode" || e.op == "folder" && e.mode != 0 && !strings.Contains(c.want, e.path+"=") {
					if info, err := os.Stat(filepath.Join(s.files, e.path)); err != nil || int64(info.Mode().Perm()) != e.mode {
						if name != "a folder that is closed later" || int64(info.Mode().Perm()) != 0o500 {
							t.Errorf("%s: %v, %v", e.path, info.Mode(), err)
						}
					}
				}
			}
			nothingPending(t, s.dir)
		})
	}
}

// markOf gives the mark of a file.
func markOf(t testing.TB, path string) listing.Mark {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return listing.Mark{Inode: st.Ino, Size: st.Size, ModTime: st.Mtim.Nano(), ChangeTime: st.Ctim.Nano(), Mode: st.Mode & 0o7777}
}

// TestChangesThatAreRefused: nothing of them is done, and they say what stands against them.
func TestChangesThatAreRefused(t *testing.T) {
	s := storedIn(t, inMemory(t))
	put(t, s.files+"/file", "file")
	put(t, s.files+"/dir/file", "below")
	os.Symlink("dir", s.files+"/link")
	os.Symlink("/", s.files+"/out")
	mark := markOf(t, s.files+"/file")
	other := func(change func(*listing.Mark)) string {
		m := mark
		change(&m)
		return m.String()
	}
	before := tree(t, s.dir)
	for name, c := range map[string]struct {
		entry  edit
		status int
		says   string
	}{
		"a file on a folder":            {edit{path: "dir", text: "x"}, 409, "it is a folder"},
		"a link on a folder":            {edit{op: "symlink", path: "dir", text: "x"}, 409, "it is a folder"},
		"a hard link on a folder":       {edit{op: "link", path: "dir", text: "file"}, 409, "it is a folder"},
		"a folder on a file":            {edit{op: "folder", path: "file"}, 409, "no folder"},
		"a folder on a link":            {edit{op: "folder", path: "link"}, 409, "no folder"},
		"below a file":                  {edit{path: "file/x", text: "x"}, 409, `"file", above it, is no folder`},
		"below a link":                  {edit{path: "link/x", text: "x"}, 409, `"link", above it, is no folder`},
		"below a link that leads out":   {edit{path: "out/tmp/x", text: "x"}, 409, "no folder"},
		"delete what is not there":      {edit{op: "delete", path: "none"}, 409, "not there"},
		"delete below nothing":          {edit{op: "delete", path: "none/none"}, 409, "not there"},
		"delete below a link":           {edit{op: "delete", path: "link/file"}, 409, "no folder"},
		"delete a full folder":          {edit{op: "delete", path: "dir"}, 409, "not empty"},
		"a mode of nothing":             {edit{op: "mode", path: "none"}, 409, "not there"},
		"a mode of a link":              {edit{op: "mode", path: "link"}, 409, "only files and folders"},
		"a hard link to nothing":        {edit{op: "link", path: "x", text: "none"}, 409, `"none" is not there`},
		"a hard link to a folder":       {edit{op: "link", path: "x", text: "dir"}, 409, `"dir" is a folder`},
		"a hard link below a link":      {edit{op: "link", path: "x", text: "link/file"}, 409, "no folder"},
		"what is not there any more":    {edit{path: "x", expect: mark.String()}, 409, "not there any more"},
		"what is there already":         {edit{path: "file", expect: "absent"}, 409, "there already"},
		"another inode":                 {edit{path: "file", expect: other(func(m *listing.Mark) { m.Inode++ })}, 409, "has changed"},
		"another size":                  {edit{path: "file", expect: other(func(m *listing.Mark) { m.Size++ })}, 409, "has changed"},
		"another time":                  {edit{path: "file", expect: other(func(m *listing.Mark) { m.ModTime++ })}, 409, "has changed"},
		"another time of change":        {edit{op: "delete", path: "file", expect: other(func(m *listing.Mark) { m.ChangeTime-- })}, 409, "has changed"},
		"another mode":                  {edit{op: "mode", path: "file", expect: other(func(m *listing.Mark) { m.Mode ^= 1 })}, 409, "has changed"},
		"a mark that is none":           {edit{path: "file", expect: "yesterday"}, 400, "five numbers"},
		"an operation that is none":     {edit{op: "rename", path: "file"}, 400, "put, delete or mode"},
		"keeping that is neither":       {edit{path: "file", records: map[string]string{recordKeep: "yes"}}, 400, recordKeep},
		"up":                            {edit{path: "../x", text: "x"}, 400, "relative"},
		"up from below":                 {edit{path: "dir/../../x", text: "x"}, 400, "relative"},
		"absolute":                      {edit{path: "/etc/x", text: "x"}, 400, "relative"},
		"here":                          {edit{path: "./x", text: "x"}, 400, "relative"},
		"the workspace itself":          {edit{op: "delete", path: "."}, 400, "relative"},
		"no name":                       {edit{op: "folder", path: ""}, 400, "itself"},
		"two slashes":                   {edit{path: "dir//x", text: "x"}, 400, "relative"},
		"too long a path":               {edit{path: strings.Repeat("x/", 2048) + "x"}, 400, "4096"},
		"too long a name":               {edit{path: strings.Repeat("x", 256)}, 409, "too long"},
		"a hard link that leads out":    {edit{op: "link", path: "x", text: "../pending/x"}, 400, "relative"},
		"a hard link that is absolute":  {edit{op: "link", path: "x", text: "/etc/passwd"}, 400, "relative"},
		"a link without a target":       {edit{op: "symlink", path: "x", text: ""}, 400, "target"},
		"a link with too long a target": {edit{op: "symlink", path: "x", text: strings.Repeat("x", 4097)}, 400, "target"},
		"a pipe":                        {edit{path: "x", typing: tar.TypeFifo}, 400, "only files"},
		"a device":                      {edit{path: "x", typing: tar.TypeChar}, 400, "only files"},
	} {
		for _, entries := range [][]edit{{c.entry}, {{path: "first/x", text: "x"}, {path: "file", text: "changed", mode: 0o600}, {op: "delete", path: "dir/file"}, {path: "dir/file", text: "again"}, c.entry}} {
			if len(entries) > 1 && (name == "delete a full folder" || name == "what is there already") {
				continue
			}
			status, path, said := s.change(t, archiveOf(t, entries...))
			if want := strings.TrimSuffix(c.entry.path, "/"); status != c.status || strings.TrimSuffix(path, "/") != want || !strings.Contains(said, c.says) {
				t.Errorf("%s: %d %.100q %q", name, status, path, said)
			}
			if after := tree(t, s.dir); after != before {
				t.Fatalf("%s made it\n%s", name, after)
			}
		}
	}
	// What is as it is expected to be is taken.
	if status, path, said := s.change(t, archiveOf(t, edit{path: "file", text: "x", expect: mark.String()}, edit{path: "new", expect: "absent"}, edit{path: "file/x/y", expect: "absent"})); status != 409 || path != "file/x/y" {
		t.Errorf("%d %q %q", status, path, said)
	}
	if status, path, said := s.change(t, archiveOf(t, edit{path: "file", text: "x", expect: mark.String()}, edit{path: "new", expect: "absent"})); status != 200 {
		t.Errorf("%d %q %q", status, path, said)
	}
}

// TestArchivesThatAreNone: nothing is done of a change that does not come whole.
func TestArchivesThatAreNone(t *testing.T) {
	s := storedIn(t, inMemory(t))
	put(t, s.files+"/file", "file")
	before := tree(t, s.dir)
	whole := archiveOf(t, edit{path: "file", text: strings.Repeat("x", 2000)}, edit{path: "new", text: "y"})
	for n := 1; n < len(whole); n += 100 {
		if status, _, said := s.change(t, whole[:n]); status != 400 {
			t.Errorf("cut at %d: %d %q", n, status, said)
		}
	}
	for name, body := range map[string]io.Reader{
		"what is no archive":  strings.NewReader(strings.Repeat("no archive", 1000)),
		"what breaks":         io.MultiReader(bytes.NewReader(whole[:1500]), failingReader{errors.New("the link broke")}),
		"what breaks at last": io.MultiReader(bytes.NewReader(whole), failingReader{errors.New("the link broke")}),
		"what goes on":        io.MultiReader(bytes.NewReader(whole), io.LimitReader(zeroes{}, 2<<20)),
	} {
		if r := s.call(t, http.MethodPut, "/volume/change", nil, body); r.Code == 200 {
			t.Errorf("%s was taken", name)
		}
	}
	if after := tree(t, s.dir); after != before {
		t.Errorf("it is\n%s", after)
	}
	if status, _, said := s.change(t, append(whole, make([]byte, 9000)...)); status != 200 || said != "1 1 0 2001" {
		t.Errorf("an archive with what tar adds: %d %q", status, said)
	}
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func BenchmarkChange(b *testing.B) {
	var edits []edit
	for i := range 20_000 {
		edits = append(edits, edit{path: fmt.Sprintf("many/group-%d/package-%d/some_source_file_%d.go", i/1000, i/20, i), text: fmt.Sprintf("package p%d\n", i)})
	}
	archive := archiveOf(b, edits...)
	b.Run("change", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			s := storedIn(b, inMemory(b))
			b.StartTimer()
			if _, err := s.volume.change(context.Background(), bytes.NewReader(archive)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("tar", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			dir := inMemory(b)
			b.StartTimer()
			cmd := exec.Command("tar", "-xpf", "-", "-C", dir)
			cmd.Stdin = bytes.NewReader(archive)
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
	})
}
