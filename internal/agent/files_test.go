package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// folder is a place of files alone.
type folder struct{ root int }

func (f folder) Root() (int, error)                { return f.root, nil }
func (folder) Do(f func() error) error             { return f() }
func (folder) Group() (Group, error)               { return nil, errors.ErrUnsupported }
func (folder) Renew(_ *agentv1.RenewRequest) error { return nil }

// world is a root folder, with what lies beside it and must never be reached.
type world struct {
	*Server
	dir     string // the root
	outside string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	base := t.TempDir()
	w := &world{dir: filepath.Join(base, "root"), outside: filepath.Join(base, "outside")}
	for _, dir := range []string{w.dir + "/sub/deep", w.outside} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.put(t, w.outside+"/secret", "secret")
	w.put(t, w.dir+"/file", "inside")
	w.put(t, w.dir+"/sub/file", "below")
	for name, target := range map[string]string{
		"absolute":         w.outside + "/secret",
		"up":               "../outside/secret",
		"far":              "../../../../../../../../.." + w.outside + "/secret",
		"folder":           w.outside,
		"folder-up":        "../outside",
		"magic":            "/proc/self/root" + w.outside + "/secret",
		"magic-cwd":        "/proc/self/cwd",
		"loop":             "loop",
		"loop-a":           "loop-b",
		"loop-b":           "loop-a",
		"root":             "/",
		"top":              "..",
		"inside":           "/sub/file",
		"deep":             "sub/deep",
		"sub/deep/out":     "../../../../../../../file",
		"dangling":         "/not/there",
		"dangling-outside": w.outside + "/new",
	} {
		if err := os.Symlink(target, filepath.Join(w.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	w.Server = New(folder{openRoot(t, w.dir)}, "test")
	t.Cleanup(func() {
		if b, err := os.ReadFile(w.outside + "/secret"); string(b) != "secret" || err != nil {
			t.Errorf("what is outside is %q, %v", b, err)
		}
		if entries, _ := os.ReadDir(w.outside); len(entries) != 1 {
			t.Errorf("outside there are %v", entries)
		}
		filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
			if strings.HasPrefix(filepath.Base(path), ".pyro-") {
				t.Errorf("%s is left", path)
			}
			return nil
		})
	})
	return w
}

func (w *world) put(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// call makes a call for a file's content. It must answer at once.
func (w *world) call(t testing.TB, method string, q url.Values, body io.Reader) (status int, answer string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	renewed := &session{}
	renewed.renewed.Store(true)
	r := httptest.NewRequestWithContext(context.WithValue(ctx, sessionKey{}, renewed), method, filePath+"?"+q.Encode(), body)
	rec := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.files(rec, r)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatalf("%s %v hangs", method, q)
	}
	return rec.Code, strings.TrimSpace(rec.Body.String())
}

func (w *world) read(t testing.TB, path string) (int, string) {
	t.Helper()
	return w.call(t, http.MethodGet, url.Values{"path": {path}, "offset": {"0"}, "limit": {"0"}}, nil)
}

func (w *world) write(t testing.TB, path string, mode int, parents bool, size int, content io.Reader) (int, string) {
	t.Helper()
	return w.call(t, http.MethodPut, url.Values{
		"path": {path}, "mode": {strconv.Itoa(mode)}, "parents": {strconv.FormatBool(parents)}, "size": {strconv.Itoa(size)},
	}, content)
}

func (w *world) stat(path string) (*agentv1.StatResponse, error) {
	r, err := w.Stat(context.Background(), connect.NewRequest(&agentv1.StatRequest{Path: path}))
	if err != nil {
		return nil, err
	}
	return r.Msg, nil
}

// TestNothingLeadsOut follows every path that could lead out of the root.
func TestNothingLeadsOut(t *testing.T) {
	w := newWorld(t)
	for path, want := range map[string]string{
		"/file":               "inside",
		"//file":              "inside",
		"/./sub/.././file":    "inside",
		"/../../../file":      "inside",
		"/inside":             "below",
		"/root/root/file":     "inside",
		"/top/file":           "inside",
		"/sub/deep/out":       "inside",
		"/deep/../file":       "below", // as the kernel sees it: the link first
		"/deep/../../file":    "inside",
		"/root/../sub/file":   "below",
		"/absolute":           "",
		"/up":                 "",
		"/far":                "",
		"/folder/secret":      "",
		"/folder-up/secret":   "",
		"/top/outside/secret": "",
		"/magic":              "",
		"/magic-cwd/file":     "",
		"/loop":               "",
		"/loop-a":             "",
		"/dangling":           "",
		"/file/below":         "",
		"/file/..":            "",
		"/sub":                "",
		"/":                   "",
	} {
		status, got := w.read(t, path)
		if want != "" && (status != 200 || got != want) || want == "" && (status == 200 || strings.Contains(got, "secret\n") || status == 500) {
			t.Errorf("%s: %d %q", path, status, got)
		}
	}
	// A root that has a /proc: its links to open files and processes are not followed at all.
	real := New(folder{openRoot(t, "/")}, "test")
	for _, path := range []string{"/proc/self/exe", "/proc/self/root/etc/passwd", "/proc/self/cwd/x", "/proc/self/fd/0"} {
		if status, got := (&world{Server: real}).read(t, path); status != http.StatusConflict {
			t.Errorf("%s: %d %.100q", path, status, got)
		}
	}
	for _, path := range []string{"/absolute", "/up", "/far", "/magic", "/inside", "/dangling-outside", "/root", "/sub", "/", "/loop", "/file/x", "/file/"} {
		if status, got := w.write(t, path, 0, true, 1, strings.NewReader("x")); status == 200 || status == 500 {
			t.Errorf("write %s: %d %q", path, status, got)
		}
	}
	// Where a link to a folder outside stands, the same path within the root is meant, as its processes see it.
	if status, got := w.write(t, "/folder/new", 0, true, 1, strings.NewReader("x")); status != 404 {
		t.Errorf("write below a link that leads out: %d %q", status, got)
	}
	if status, got := w.write(t, "/deep/new", 0, false, 1, strings.NewReader("x")); status != 200 {
		t.Errorf("write below a link: %d %q", status, got)
	}
	if b, _ := os.ReadFile(w.dir + "/sub/deep/new"); string(b) != "x" {
		t.Errorf("got %q", b)
	}
}

func TestUnusablePaths(t *testing.T) {
	w := newWorld(t)
	for name, path := range map[string]string{"empty": "", "relative": "file", "up": "../file", "zero": "/fi\x00le", "long": "/" + strings.Repeat("x", maxPath)} {
		if status, got := w.read(t, path); status != 400 {
			t.Errorf("read %s: %d %q", name, status, got)
		}
		if status, got := w.write(t, path, 0, false, 0, nil); status != 400 {
			t.Errorf("write %s: %d %q", name, status, got)
		}
		if _, err := w.stat(path); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("stat %s: %v", name, err)
		}
	}
	for _, path := range []string{"/", "/sub/", "/sub/.", "/sub/..", "/sub/deep/../"} {
		if status, got := w.write(t, path, 0, false, 0, nil); status != 400 {
			t.Errorf("write %s: %d %q", path, status, got)
		}
	}
	for name, q := range map[string]url.Values{
		"offset -1":    {"path": {"/file"}, "offset": {"-1"}, "limit": {"0"}},
		"no offset":    {"path": {"/file"}, "limit": {"0"}},
		"huge limit":   {"path": {"/file"}, "offset": {"0"}, "limit": {"9223372036854775808"}},
		"limit in hex": {"path": {"/file"}, "offset": {"0"}, "limit": {"0x10"}},
	} {
		if status, got := w.call(t, http.MethodGet, q, nil); status != 400 {
			t.Errorf("%s: %d %q", name, status, got)
		}
	}
	if status, got := w.call(t, http.MethodDelete, url.Values{"path": {"/file"}}, nil); status != 400 {
		t.Errorf("DELETE: %d %q", status, got)
	}
	if status, got := w.write(t, "/file", 0o10000, false, 0, nil); status != 400 {
		t.Errorf("mode: %d %q", status, got)
	}
	if status, got := w.write(t, "/"+strings.Repeat("x", 256), 0, false, 0, nil); status != 409 {
		t.Errorf("a name that is too long: %d %q", status, got)
	}
}

// TestSpecialFiles: what is no file is refused, and waits for nobody.
func TestSpecialFiles(t *testing.T) {
	w := newWorld(t)
	paths := []string{"/pipe", "/pipe-written", "/socket"}
	for _, name := range paths[:2] {
		if err := unix.Mkfifo(w.dir+name, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	writer, err := os.OpenFile(w.dir+"/pipe-written", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	writer.WriteString("never read")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	root := openRoot(t, w.dir)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: "/proc/self/fd/" + strconv.Itoa(root) + "/socket"}); err != nil {
		t.Fatal(err)
	}
	if unix.Mknod(w.dir+"/device", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))) == nil {
		paths = append(paths, "/device")
	}
	for _, path := range paths {
		if status, got := w.read(t, path); status != 409 && (path != "/device" || status != 403) {
			t.Errorf("read %s: %d %q", path, status, got)
		}
		if status, got := w.write(t, path, 0, false, 1, strings.NewReader("x")); status != 409 {
			t.Errorf("write %s: %d %q", path, status, got)
		}
		if got, err := w.stat(path); err != nil || got.Type != agentv1.FileType_FILE_TYPE_OTHER {
			t.Errorf("stat %s: %v, %v", path, got, err)
		}
	}
	for _, path := range []string{"/dev/zero", "/dev/null", "/dev/tty"} {
		if status, got := (&world{Server: New(folder{openRoot(t, "/")}, "test")}).read(t, path); status != 409 {
			t.Errorf("read %s: %d %q", path, status, got)
		}
	}
}

func TestStat(t *testing.T) {
	w := newWorld(t)
	os.Chmod(w.dir+"/file", 0o750|fs.ModeSetuid)
	when := time.Unix(1234567890, 123456789)
	os.Chtimes(w.dir+"/file", when, when)
	got, err := w.stat("/file")
	if err != nil || got.Type != agentv1.FileType_FILE_TYPE_REGULAR || got.Size != 6 || got.Mode != 0o4750 || got.MtimeUnixNanos != when.UnixNano() ||
		int(got.Uid) != os.Getuid() || int(got.Gid) != os.Getgid() {
		t.Errorf("%v, %v", got, err)
	}
	for path, want := range map[string]agentv1.FileType{
		"/": agentv1.FileType_FILE_TYPE_DIRECTORY, "/sub": agentv1.FileType_FILE_TYPE_DIRECTORY, "/up": agentv1.FileType_FILE_TYPE_SYMLINK,
		"/loop": agentv1.FileType_FILE_TYPE_SYMLINK, "/root/file": agentv1.FileType_FILE_TYPE_REGULAR, "/deep/..": agentv1.FileType_FILE_TYPE_DIRECTORY,
	} {
		if got, err := w.stat(path); err != nil || got.Type != want {
			t.Errorf("%s: %v, %v", path, got, err)
		}
	}
	if got, err := w.stat("/up"); err != nil || got.LinkTarget != "../outside/secret" {
		t.Errorf("%v, %v", got, err)
	}
	for path, want := range map[string]connect.Code{
		"/none": connect.CodeNotFound, "/file/x": connect.CodeNotFound, "/folder/secret": connect.CodeNotFound, "/loop/x": connect.CodeFailedPrecondition,
	} {
		if _, err := w.stat(path); connect.CodeOf(err) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestReplace(t *testing.T) {
	w := newWorld(t)
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	mode := func(path string) fs.FileMode {
		t.Helper()
		info, err := os.Lstat(w.dir + path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode()
	}
	os.Chmod(w.dir+"/file", 0o751)
	hard := w.dir + "/hard"
	if err := os.Link(w.dir+"/file", hard); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path    string
		mode    int
		parents bool
		want    fs.FileMode
	}{
		{"/file", 0, false, 0o751},
		{"/file", 0o600, false, 0o600},
		{"/file", 0o4755, false, 0o755 | fs.ModeSetuid},
		{"/file", 0, false, 0o755 | fs.ModeSetuid},
		{"/new", 0, false, 0o644},
		{"/new2", 0o1777, false, 0o777 | fs.ModeSticky},
		{"/a/b/../c/new", 0o640, true, 0o640},
		{"/deep/x/y/new", 0, true, 0o644},
		{"/sub//new", 0, true, 0o644},
	} {
		content := c.path + strings.Repeat("x", 1<<20)
		if status, got := w.write(t, c.path, c.mode, c.parents, len(content), strings.NewReader(content)); status != 200 {
			t.Errorf("%+v: %d %q", c, status, got)
			continue
		}
		b, err := os.ReadFile(w.dir + c.path)
		if string(b) != content || err != nil || mode(c.path) != c.want {
			t.Errorf("%+v: %d bytes, %v, %v", c, len(b), mode(c.path), err)
		}
	}
	// Whoever has the old file open keeps the old file.
	if b, _ := os.ReadFile(hard); string(b) != "inside" {
		t.Errorf("the old file holds %.20q", b)
	}
	if m := mode("/a"); m != fs.ModeDir|0o700 {
		t.Errorf("a folder that was made is %v", m) // 0755, less the umask
	}
	if status, _ := w.write(t, "/no/such/folder/file", 0, false, 0, nil); status != 404 {
		t.Errorf("without parents: %d", status)
	}
	if status, _ := w.write(t, "/dangling/file", 0, true, 0, nil); status != 404 {
		t.Errorf("below a dangling link: %d", status)
	}
	if os.Getuid() == 0 {
		if err := os.Chown(w.dir+"/new", 12, 34); err != nil {
			t.Fatal(err)
		}
		os.Chmod(w.dir+"/new", 0o755|fs.ModeSetuid|fs.ModeSetgid)
		w.write(t, "/new", 0, false, 1, strings.NewReader("x"))
		if got, err := w.stat("/new"); err != nil || got.Uid != 12 || got.Gid != 34 || got.Mode != 0o6755 {
			t.Errorf("another's file: %v, %v", got, err)
		}
	}
}

// TestReplaceThatFails: the old file stands, whole, and nothing is beside it.
func TestReplaceThatFails(t *testing.T) {
	w := newWorld(t)
	broken := errors.New("the link broke")
	text := func(s string) func() io.Reader { return func() io.Reader { return strings.NewReader(s) } }
	for name, c := range map[string]struct {
		size    int
		content func() io.Reader
		status  int
	}{
		"too short": {100, text("short"), 400},
		"empty":     {100, text(""), 400},
		"too long":  {3, text("long"), 400},
		"none":      {0, text("x"), 400},
		"cut":       {100, func() io.Reader { return io.MultiReader(strings.NewReader("cut"), failingReader{broken}) }, 500},
	} {
		for _, path := range []string{"/file", "/fresh", "/made/fresh"} {
			if status, got := w.write(t, path, 0, true, c.size, c.content()); status != c.status {
				t.Errorf("%s: %s: %d %q", name, path, status, got)
			}
		}
		if b, err := os.ReadFile(w.dir + "/file"); string(b) != "inside" || err != nil {
			t.Errorf("%s: the old file holds %q, %v", name, b, err)
		}
		for _, path := range []string{"/fresh", "/made/fresh"} {
			if _, err := os.Lstat(w.dir + path); !os.IsNotExist(err) {
				t.Errorf("%s: %s is there: %v", name, path, err)
			}
		}
	}
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

// TestReplaceIsAtomic: a file that is replaced again and again is always one of what was written.
func TestReplaceIsAtomic(t *testing.T) {
	w := newWorld(t)
	whole := func(b byte) string { return strings.Repeat(string(b), 100_000) }
	w.put(t, w.dir+"/file", whole('a'))
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for i := range 3 {
		writers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
					content := whole(byte('a' + (n+i)%26))
					if status, got := w.write(t, "/file", 0, false, len(content), strings.NewReader(content)); status != 200 {
						t.Errorf("%d %q", status, got)
						return
					}
				}
			}
		})
	}
	for range 500 {
		b, err := os.ReadFile(w.dir + "/file")
		if err != nil || len(b) != 100_000 || len(bytes.Trim(b, string(b[:1]))) != 0 {
			t.Errorf("%d bytes, %v", len(b), err)
			break
		}
	}
	close(stop)
	writers.Wait()
}

// TestReadThatFails: a file whose end can't be read is no shorter file.
func TestReadThatFails(t *testing.T) {
	w := &world{Server: New(folder{openRoot(t, "/")}, "test")}
	renewed := &session{}
	renewed.renewed.Store(true)
	// The first page of a process is never mapped: reading its memory there fails.
	r := httptest.NewRequestWithContext(context.WithValue(context.Background(), sessionKey{}, renewed), http.MethodGet,
		filePath+"?path=/proc/thread-self/mem&offset=0&limit=0", nil)
	defer func() {
		if recover() != http.ErrAbortHandler {
			t.Error("the stream was not aborted")
		}
	}()
	w.files(httptest.NewRecorder(), r)
}

func TestUnrenewedFiles(t *testing.T) {
	w := newWorld(t)
	for _, method := range []string{http.MethodGet, http.MethodPut} {
		rec := httptest.NewRecorder()
		w.files(rec, httptest.NewRequest(method, filePath+"?path=/file&offset=0&limit=0&mode=0&size=0", nil))
		if rec.Code != http.StatusPreconditionFailed {
			t.Errorf("%s: %d %q", method, rec.Code, rec.Body)
		}
	}
	if b, _ := os.ReadFile(w.dir + "/file"); string(b) != "inside" {
		t.Errorf("the file holds %q", b)
	}
}
