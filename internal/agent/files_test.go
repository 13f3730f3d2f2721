package agent

import (
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
	"testing"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// folder is an ExecEnv that provides only files.
type folder struct {
	root int
	none
}

// none is the Storage of an ExecEnv that has no mounted file systems.
type none struct{}

func (none) Path(name string) string                   { return name }
func (none) Env() []string                             { return nil }
func (none) Mount(_, _ bool) (volume.Recovered, error) { return volume.Recovered{}, ErrNoVolume }
func (none) Volume() (*volume.Volume, error)           { return nil, ErrNoVolume }
func (none) Flush(bool) error                          { return ErrNoVolume }
func (none) Freeze(_, _ bool) (bool, error)            { return false, ErrNoVolume }
func (none) Thaw() error                               { return nil }
func (none) Hold() error                               { return nil }
func (none) Release() error                            { return nil }
func (none) Quiesce(context.Context) error             { return nil }

func (f folder) Root() (int, error) { return f.root, nil }
func (f folder) Files(name string) (int, string, func(), error) {
	if strings.HasPrefix(name, "/host") {
		return -1, "", nil, ErrHostPath
	}
	return f.root, name, func() {}, nil
}
func (folder) Do(f func() error) error { return f() }
func (folder) Group() (Group, error)   { return nil, errors.ErrUnsupported }

func (folder) Start(string, []string, *os.ProcAttr) (Process, error) {
	return nil, errors.ErrUnsupported
}
func (folder) Renew(_ *agentv1.RenewRequest) error { return nil }

// world is a server with a root folder, and a folder outside of the root that calls must not reach.
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
	w.Server = New(folder{root: openRoot(t, w.dir)}, "test")
	t.Cleanup(func() {
		if b, err := os.ReadFile(w.outside + "/secret"); string(b) != "secret" || err != nil {
			t.Errorf("file outside: got %q, %v, want it unchanged", b, err)
		}
		if entries, _ := os.ReadDir(w.outside); len(entries) != 1 {
			t.Errorf("entries outside: got %v", entries)
		}
		filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
			if strings.HasPrefix(filepath.Base(path), ".pyro-") {
				t.Errorf("leftover: %s", path)
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

// call makes a call for the content of a file. The test fails if there is no answer within 10 s.
func (w *world) call(t testing.TB, method string, q url.Values, body io.Reader) (status int, answer string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	renewed := newSession()
	renewed.renewed.Store(true)
	r := httptest.NewRequestWithContext(context.WithValue(ctx, sessionKey{}, renewed), method, filePath+"?"+q.Encode(), body)
	rec := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.serve(w.file)(rec, r)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatalf("%s %v hangs", method, q)
	}
	return answerOf(rec)
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

// TestPathsStayInRoot tries many kinds of paths that could lead out of the root.
func TestPathsStayInRoot(t *testing.T) {
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
		"/deep/../file":       "below", // the kernel resolves the link before ".."
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
	// If the root has a /proc, calls do not follow its links to open files and processes.
	real := New(folder{root: openRoot(t, "/")}, "test")
	for _, path := range []string{"/proc/self/exe", "/proc/self/root/etc/passwd", "/proc/self/cwd/x", "/proc/self/fd/0"} {
		if status, got := (&world{Server: real}).read(t, path); status != http.StatusConflict {
			t.Errorf("%s: %d %.100q", path, status, got)
		}
	}
	for _, path := range []string{"/absolute", "/up", "/far", "/magic", "/dangling-outside", "/root", "/sub", "/", "/loop", "/file/x", "/file/"} {
		if status, got := w.write(t, path, 0, true, 1, strings.NewReader("x")); status == 200 || status == 500 {
			t.Errorf("write %s: %d %q", path, status, got)
		}
	}
	if status, got := w.write(t, "/inside", 0, false, 1, strings.NewReader("y")); status != 200 {
		t.Errorf("write through a link: %d %q", status, got)
	}
	if b, _ := os.ReadFile(w.dir + "/sub/file"); string(b) != "y" {
		t.Errorf("the target of the link has %q", b)
	}
	// The target of an absolute link is a path within the root, as processes see it.
	if status, got := w.write(t, "/folder/new", 0, true, 1, strings.NewReader("x")); status != 409 {
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
	if status, got := w.call(t, http.MethodPost, url.Values{"path": {"/file"}}, nil); status != 400 {
		t.Errorf("POST: %d %q", status, got)
	}
	if status, got := w.write(t, "/file", 0o10000, false, 0, nil); status != 400 {
		t.Errorf("mode: %d %q", status, got)
	}
	if status, got := w.write(t, "/"+strings.Repeat("x", 256), 0, false, 0, nil); status != 409 {
		t.Errorf("a name that is too long: %d %q", status, got)
	}
}

// TestSpecialFiles checks that calls on special files fail without blocking.
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
		if status, got := (&world{Server: New(folder{root: openRoot(t, "/")}, "test")}).read(t, path); status != 409 {
			t.Errorf("read %s: %d %q", path, status, got)
		}
	}
}

// TestProcFilesDoNotBlock checks that reading a file in /proc does not block, even if the file has
// no data yet.
func TestProcFilesDoNotBlock(t *testing.T) {
	real := &world{Server: New(folder{root: openRoot(t, "/")}, "test")}
	if status, got := real.read(t, "/proc/meminfo"); status != 200 || !strings.Contains(got, "MemTotal") {
		t.Errorf("meminfo: %d %.100q", status, got)
	}
	real.read(t, "/proc/kmsg") // this call fails if the read blocks
}

// TestNonblockingReads reads a pipe without data, which behaves like /proc/kmsg. It then reads
// again when the pipe has data.
func TestNonblockingReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, want := range []string{"", "more"} {
		f.WriteString(want)
		if got, err := io.ReadAll(nonblocking{f}); err != nil || string(got) != want {
			t.Errorf("%q is read as %q, %v", want, got, err)
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

func TestUnrenewedFiles(t *testing.T) {
	w := newWorld(t)
	for _, method := range []string{http.MethodGet, http.MethodPut} {
		rec := httptest.NewRecorder()
		w.serve(w.file)(rec, httptest.NewRequest(method, filePath+"?path=/file&offset=0&limit=0&mode=0&size=0", nil))
		if rec.Code != http.StatusPreconditionFailed {
			t.Errorf("%s: %d %q", method, rec.Code, rec.Body)
		}
	}
	if b, _ := os.ReadFile(w.dir + "/file"); string(b) != "inside" {
		t.Errorf("the file holds %q", b)
	}
}
