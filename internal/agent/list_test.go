package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/agent/volume/volumetest"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// randomTree creates a tree with many kinds of names, modes and times.
func randomTree(t testing.TB, dir string, seed int64, files int) {
	t.Helper()
	random := rand.New(rand.NewSource(seed))
	names := []string{"a", "a-", "a.b", "A", "ä", "with space", "new\nline", "\xff\xfe", "-rf", ".hidden", "..not", strings.Repeat("l", 255), "%s", "tab\t", "'\"", "\x01"}
	folders := []string{""}
	for i := range files {
		folder := folders[random.Intn(len(folders))]
		name := names[random.Intn(len(names))]
		if len(name) < 200 {
			name += strconv.Itoa(i)
		}
		path := filepath.Join(folder, name)
		at := filepath.Join(dir, path)
		if _, err := os.Lstat(at); err == nil || len(path) > 3000 {
			continue
		}
		var err error
		switch random.Intn(8) {
		case 0, 1:
			folders = append(folders, path)
			err = os.Mkdir(at, 0o755)
		case 2:
			err = os.Symlink(strings.Repeat("../x", 1+random.Intn(100)), at)
		case 3:
			err = os.Link(filepath.Join(dir, "first"), at)
			if errors.Is(err, os.ErrNotExist) {
				err = os.WriteFile(filepath.Join(dir, "first"), []byte("first"), 0o644)
			}
		case 4:
			err = unix.Mkfifo(at, 0o600)
		default:
			content := make([]byte, random.Intn(3000))
			random.Read(content)
			err = os.WriteFile(at, content, 0o644)
			if err == nil {
				err = os.Chmod(at, os.FileMode(random.Intn(0o1000)|0o400)|os.ModeSetuid)
			}
			when := time.Unix(random.Int63n(4e9)-1e9, random.Int63n(1e9))
			err = errors.Join(err, os.Chtimes(at, when, when))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// list calls GET /volume/list and returns the entries.
func (s *stored) list(t testing.TB, path string, recursive bool) (entries []listing.Entry) {
	t.Helper()
	r := s.call(t, http.MethodGet, "/volume/list", url.Values{"path": {path}, "recursive": {strconv.FormatBool(recursive)}}, nil)
	if status, _, text := ended(r); status != 200 {
		t.Fatalf("%d %q, %s", status, r.Body, text)
	}
	return entriesOf(t, r.Body)
}

func entriesOf(t testing.TB, list io.Reader) (entries []listing.Entry) {
	t.Helper()
	from := listing.NewReader(list)
	for {
		e, err := from.Next()
		if err == io.EOF {
			return entries
		}
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
}

// TestListMatchesFind compares lists with the output of find(1).
func TestListMatchesFind(t *testing.T) {
	s := newStored(t)
	for seed := range testenv.Seeds(t, 5) {
		dir := filepath.Join(s.files, "top "+strconv.FormatUint(seed, 10))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		randomTree(t, dir, int64(seed), 400)
		for _, depth := range []int{1, 1000} {
			const format = `%P\0%y\0%m\0%s\0%T@\0%C@\0%i\0%U\0%G\0%n\0%l\0`
			out, err := exec.Command("find", dir, "-maxdepth", strconv.Itoa(depth), "-printf", format).Output()
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			fields := strings.Split(string(out), "\x00")
			for ; len(fields) > 11; fields = fields[11:] {
				want = append(want, strings.Join(fields[:11], " | "))
			}
			var got []string
			seconds := func(n int64) string {
				if n < 0 && n%1e9 != 0 { // find prints seconds rounded down
					return fmt.Sprintf("%d.%09d0", n/1e9-1, n%1e9+1e9)
				}
				return fmt.Sprintf("%d.%09d0", n/1e9, n%1e9)
			}
			for _, e := range s.list(t, filepath.Base(dir), depth > 1) {
				got = append(got, strings.Join([]string{
					e.Path, map[listing.Kind]string{listing.File: "f", listing.Folder: "d", listing.Link: "l", listing.Pipe: "p"}[e.Kind], fmt.Sprintf("%o", e.Mode),
					fmt.Sprint(e.Size), seconds(e.ModTime), seconds(e.ChangeTime), fmt.Sprint(e.Inode), fmt.Sprint(e.UID), fmt.Sprint(e.GID), fmt.Sprint(e.Links), e.Target,
				}, " | "))
			}
			slices.Sort(want)
			slices.Sort(got) // listing.Reader has already checked the order
			if len(want) < 10 {
				t.Fatalf("find finds %d entries", len(want))
			}
			if !slices.Equal(got, want) {
				for i := range min(len(got), len(want)) {
					if got[i] != want[i] {
						t.Fatalf("seed %d: got  %q\nwant %q", seed, got[i], want[i])
					}
				}
				t.Fatalf("seed %d: %d entries, %d found", seed, len(got), len(want))
			}
		}
	}
}

func TestListFromPath(t *testing.T) {
	s := newStored(t)
	volumetest.Put(t, s.files+"/dir/file", "12345")
	os.Symlink("dir", s.files+"/link")
	for path, want := range map[string][]string{"dir/file": {""}, "dir": {"", "file"}, "link": {"", "file"}, "": {"", "dir", "dir/file", "link"}} {
		var got []string
		for _, e := range s.list(t, path, true) {
			got = append(got, e.Path)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q", path, got)
		}
	}
	if e := s.list(t, "dir/file", false)[0]; e.Kind != listing.File || e.Size != 5 {
		t.Errorf("%+v", e)
	}
	r := s.call(t, http.MethodGet, "/volume/list", url.Values{"path": {""}, "recursive": {"perhaps"}}, nil)
	if r.Code != 400 {
		t.Errorf("%d %q", r.Code, r.Body)
	}
}

// TestListDuringChanges lists a tree while it changes. It checks that the list has at least
// all unchanged entries.
func TestListDuringChanges(t *testing.T) {
	s := newStored(t)
	for i := range 200 {
		volumetest.Put(t, fmt.Sprintf("%s/stays/%d/file", s.files, i), "x")
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				name := fmt.Sprintf("%s/stays/%d/", s.files, i%200)
				os.MkdirAll(name+"come/and/go", 0o755)
				os.WriteFile(name+"come/and/file", nil, 0o644)
				os.Rename(name+"come", name+"went")
				os.RemoveAll(name + "went")
				os.Symlink("x", name+"went")
				os.Remove(name + "went")
			}
		}
	}()
	for range 30 {
		stays := 0
		for _, e := range s.list(t, "", true) {
			if strings.HasSuffix(e.Path, "/file") && strings.Count(e.Path, "/") == 2 {
				stays++
			}
		}
		if stays != 200 {
			t.Errorf("got %d of the unchanged files", stays)
		}
	}
	close(stop)
	<-stopped
}

// TestListFails lists a tree with a path that is too long. It checks that the call
// reports an error and the list is truncated.
func TestListFails(t *testing.T) {
	s := newStored(t)
	deep := strings.Repeat(strings.Repeat("d", 250)+"/", 20) // longer than PATH_MAX
	at, err := unix.Open(s.files, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.Trim(deep, "/"), "/") {
		if err := unix.Mkdirat(at, name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		unix.Close(at)
		if at = next; err != nil {
			t.Fatal(err)
		}
	}
	unix.Close(at)
	r := s.call(t, http.MethodGet, "/volume/list", url.Values{"recursive": {"1"}}, nil)
	if status, _, text := ended(r); status != 409 || !strings.Contains(text, "name too long") {
		t.Errorf("%d %s", status, text)
	}
	from := listing.NewReader(bytes.NewReader(r.Body.Bytes()))
	for err = nil; err == nil; {
		_, err = from.Next()
	}
	if err != io.ErrUnexpectedEOF {
		t.Errorf("it reads as %v", err)
	}
	// A tree archive can have paths longer than PATH_MAX.
	r = s.call(t, http.MethodGet, "/volume/tree", nil, nil)
	if status, _, text := ended(r); status != 200 || r.Result().Trailer.Get(countsTrailer) != "21 0 0" {
		t.Errorf("%d %s, %v", status, text, r.Result().Trailer)
	}
}

func TestListDoesNotAllocatePerEntry(t *testing.T) {
	s := newStored(t)
	for i := range 2000 {
		volumetest.Put(t, fmt.Sprintf("%s/%d/%d", s.files, i/100, i), "")
	}
	l, err := s.volume.List("", true)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if n := testing.AllocsPerRun(5, func() {
		if err := l.Write(io.Discard); err != nil {
			t.Fatal(err)
		}
	}); n > 100 {
		t.Errorf("%f allocations for 2000 files", n)
	}
}

// manyFiles creates a tree of 20,000 files in a thousand folders. The tree is a git repository with
// a clean work tree.
func manyFiles(b *testing.B, dir string) {
	b.Helper()
	for i := range 1000 {
		folder := filepath.Join(dir, fmt.Sprintf("group-%d", i%20), fmt.Sprintf("package-%d", i))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			b.Fatal(err)
		}
		for j := range 20 {
			if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("some_source_file_%d.go", j)), fmt.Appendf(nil, "package p%d\n", i*j), 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "t"}, {"status"}, {"status"}} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			b.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	if err := os.Rename(filepath.Join(dir, ".git"), dir+".git"); err != nil { // so that all programs list the same files
		b.Fatal(err)
	}
}

func BenchmarkList(b *testing.B) {
	s := newStored(b)
	manyFiles(b, s.files)
	run := func(name string, args ...string) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				cmd := exec.Command(args[0], args[1:]...)
				cmd.Dir = s.files
				if err := cmd.Run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("list", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l, err := s.volume.List("", true)
			if err != nil {
				b.Fatal(err)
			}
			if err := l.Write(io.Discard); err != nil {
				b.Fatal(err)
			}
			l.Close()
		}
	})
	run("git-status", "git", "--git-dir", s.files+".git", "--work-tree", s.files, "status", "--porcelain")
	run("git-status-one-thread", "git", "-c", "core.preloadIndex=false", "--git-dir", s.files+".git", "--work-tree", s.files, "status", "--porcelain")
	run("find", "find", ".", "-printf", "%p %y %m %s %T@ %C@ %i %U %G %n %l\n")
}

// TestSingleEntry requests single entries. It checks that no link is followed, neither within the
// path nor at its end.
func TestSingleEntry(t *testing.T) {
	s := newStored(t)
	volumetest.Put(t, s.files+"/file", "content")
	volumetest.Put(t, s.files+"/folder/file", "x")
	for name, target := range map[string]string{
		"to-file": "file", "to-folder": "folder", "dangling": "none", "loop": "loop", "absolute": "/etc/passwd", "out": "../../x", "folder/up": "../file",
	} {
		if err := os.Symlink(target, filepath.Join(s.files, name)); err != nil {
			t.Fatal(err)
		}
	}
	stat := func(path string) (int, []listing.Entry) {
		r := s.call(t, http.MethodGet, "/volume/list", url.Values{"path": {path}, "recursive": {"0"}, "alone": {"1"}}, nil)
		if status, _, _ := ended(r); status != 200 {
			return status, nil
		}
		return r.Code, entriesOf(t, r.Body)
	}
	for path, want := range map[string]listing.Entry{
		"":            {Attributes: listing.Attributes{Kind: listing.Folder}},
		"file":        {Attributes: listing.Attributes{Kind: listing.File, Size: 7}},
		"folder":      {Attributes: listing.Attributes{Kind: listing.Folder}},
		"folder/file": {Attributes: listing.Attributes{Kind: listing.File, Size: 1}},
		"to-file":     {Attributes: listing.Attributes{Kind: listing.Link, Size: 4}, Target: "file"},
		"to-folder":   {Attributes: listing.Attributes{Kind: listing.Link, Size: 6}, Target: "folder"},
		"dangling":    {Attributes: listing.Attributes{Kind: listing.Link, Size: 4}, Target: "none"},
		"loop":        {Attributes: listing.Attributes{Kind: listing.Link, Size: 4}, Target: "loop"},
		"absolute":    {Attributes: listing.Attributes{Kind: listing.Link, Size: 11}, Target: "/etc/passwd"},
		"out":         {Attributes: listing.Attributes{Kind: listing.Link, Size: 7}, Target: "../../x"},
		"folder/up":   {Attributes: listing.Attributes{Kind: listing.Link, Size: 7}, Target: "../file"},
	} {
		status, got := stat(path)
		if status != 200 || len(got) != 1 || got[0].Kind != want.Kind || got[0].Target != want.Target || want.Kind != listing.Folder && got[0].Size != want.Size || got[0].Path != "" {
			t.Errorf("%q: %d, %+v", path, status, got)
			continue
		}
		in, err := os.Lstat(filepath.Join(s.files, path))
		if err != nil || in.ModTime().UnixNano() != got[0].ModTime {
			t.Errorf("%q: %+v, %v", path, got[0], err)
		}
	}
	for path, want := range map[string]int{"none": 404, "none/x": 404, "file/x": 404, "to-folder/file": 409, "loop/x": 409, "to-folder/none": 409} {
		if status, got := stat(path); status != want {
			t.Errorf("%q: %d, %+v", path, status, got)
		}
	}
}
