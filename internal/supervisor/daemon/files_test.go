package daemon

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/content"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestFiles tests all calls of the file service. All subtests share one machine.
func TestFiles(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	for name, test := range map[string]func(*testing.T, *home, *remote.Client){
		"transfers": testTransfers, "errors": testFileRefusals, "renames": testRenames, "trees": testTrees, "callers' own errors": testOwnErrors, "at once": testFilesAtOnce,
	} {
		t.Run(name, func(t *testing.T) { test(t, h, c) })
	}
}

func testTransfers(t *testing.T, h *home, c *remote.Client) {
	large := strings.Repeat("0123456789abcdef", 1<<17)
	check(t, c.WriteFile(t.Context(), "a/b/large", 0o640, int64(len(large)), strings.NewReader(large)))
	if info, err := os.Stat(filepath.Join(h.files(), "a/b/large")); err != nil || info.Mode() != 0o640 || info.Size() != int64(len(large)) {
		t.Errorf("%v, %v", info, err)
	}
	for _, part := range []struct{ offset, limit, want int64 }{{0, 0, 2 << 20}, {5, 3, 3}, {2<<20 - 1, 10, 1}, {2 << 20, 0, 0}} {
		var got bytes.Buffer
		err := c.ReadFile(t.Context(), "a/b/large", part.offset, part.limit, &got)
		if err != nil || int64(got.Len()) != part.want || got.String() != large[part.offset:part.offset+part.want] {
			t.Errorf("%+v: %d bytes, %v", part, got.Len(), err)
		}
	}
	check(t, os.Symlink("b/large", filepath.Join(h.files(), "a/link")))
	var names []string
	check(t, c.List(t.Context(), "a", true, func(e listing.Entry) error { names = append(names, e.Path+">"+e.Target); return nil }))
	if got := strings.Join(names, " "); got != "> b> b/large> link>b/large" {
		t.Errorf("listed: %s", got)
	}
	var archive bytes.Buffer
	check(t, c.ReadTree(t.Context(), "a", &archive))
	count := 0
	for r := tar.NewReader(&archive); ; count++ {
		if _, err := r.Next(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if count != 4 {
		t.Errorf("%d entries in the archive", count)
	}
	changed, err := c.Change(t.Context(), archiveOf(t, "new/one", "1", "new/two", "22"))
	if err != nil || changed.Created != 2 || changed.Bytes != 3 {
		t.Errorf("%+v, %v", changed, err)
	}
}

// archiveOf returns a tar archive. Its arguments alternate between file names and contents.
func archiveOf(t *testing.T, files ...string) io.Reader {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for i := 0; i < len(files); i += 2 {
		check(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: files[i], Mode: 0o644, Size: int64(len(files[i+1]))}))
		_, err := io.WriteString(w, files[i+1])
		check(t, err)
	}
	check(t, w.Close())
	return &archive
}

func testRenames(t *testing.T, _ *home, c *remote.Client) {
	ctx := t.Context()
	dir := t.TempDir() // the machine uses the file system of the host
	check(t, c.WriteMachineFile(ctx, dir+"/a", strings.NewReader("x")))
	check(t, c.MakeMachineFolder(ctx, dir+"/folder"))
	check(t, c.RenameMachinePath(ctx, dir+"/a", dir+"/folder/b"))
	check(t, c.RenameMachinePath(ctx, dir+"/folder", dir+"/moved"))
	if b, err := os.ReadFile(dir + "/moved/b"); string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
	check(t, c.RenameMachinePath(ctx, dir+"/moved/b", "/workspace/renamed"))
	for _, refused := range []struct {
		from, to string
		kind     fault.Kind
		hint     string
	}{
		{"/workspace/renamed", dir + "/moved", fault.Exists, ""},
		{dir + "/none", dir + "/new", fault.NotFound, ""},
		{"/workspace/renamed", "/workspace/no-folder/b", fault.NotFound, "make this folder first"},
		{"/workspace", dir + "/new", fault.Invalid, ""},
	} {
		if err := c.RenameMachinePath(ctx, refused.from, refused.to); fault.KindOf(err) != refused.kind || fault.HintOf(err) != refused.hint {
			t.Errorf("%s to %s: %s: %v (%s)", refused.from, refused.to, fault.KindOf(err), err, fault.HintOf(err))
		}
	}
	check(t, c.RemoveMachinePath(ctx, "/workspace/renamed"))
}

// testTrees unpacks and packs trees at paths of the machine.
func testTrees(t *testing.T, h *home, c *remote.Client) {
	ctx := t.Context()
	archive := func() io.Reader {
		return archiveOf(t, "a/large", strings.Repeat("x", 3<<20), "a/small", "1")
	}
	done, err := c.PutMachineTree(ctx, "/workspace/trees/new", remote.TreeOptions{SetOwner: true, UID: os.Getuid(), GID: os.Getgid()}, archive())
	if err != nil || done != (remote.Unpacked{Files: 2, Bytes: 3<<20 + 1}) {
		t.Errorf("%+v, %v", done, err)
	}
	if info, err := os.Stat(filepath.Join(h.files(), "trees/new/a/large")); err != nil || info.Size() != 3<<20 {
		t.Errorf("%v, %v", info, err)
	}
	var back bytes.Buffer
	check(t, c.GetMachineTree(ctx, "/workspace/trees/new", "as", &back))
	var names []string
	for r := tar.NewReader(&back); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		check(t, err)
		names = append(names, h.Name)
	}
	if got := strings.Join(names, " "); got != "as/ as/a/ as/a/large as/a/small" {
		t.Errorf("packed %s", got)
	}
	dir := t.TempDir()
	check(t, os.Symlink(dir, filepath.Join(h.files(), "to-host")))
	for path, want := range map[string]fault.Kind{
		dir: fault.Permission, "/": fault.Permission, "/workspaces": fault.Permission, "/workspace/../etc": fault.Permission, "/workspace/to-host/x": fault.Precondition,
		"workspace": fault.Invalid, "": fault.Invalid, "/workspace/trees/new/a/small": fault.Precondition,
	} {
		if _, err := c.PutMachineTree(ctx, path, remote.TreeOptions{}, archive()); fault.KindOf(err) != want {
			t.Errorf("unpack into %s: %s: %v", path, fault.KindOf(err), err)
		}
	}
	for path, want := range map[string]fault.Kind{
		dir: fault.Permission, "/etc/passwd": fault.Permission, "/workspace/to-host/": fault.NotFound, "/workspace/trees/absent": fault.NotFound, "x": fault.Invalid,
	} {
		if err := c.GetMachineTree(ctx, path, "", io.Discard); fault.KindOf(err) != want {
			t.Errorf("pack %s: %s: %v", path, fault.KindOf(err), err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("on the host are %v, %v", left, err)
	}
	own := errors.New("own")
	if _, err := c.PutMachineTree(ctx, "/workspace", remote.TreeOptions{}, io.MultiReader(io.LimitReader(archive(), 5000), failing{own})); !errors.Is(err, own) {
		t.Errorf("a reader that fails: %v", err)
	}
	if _, err := c.PutMachineTree(ctx, "/workspace", remote.TreeOptions{}, io.LimitReader(archive(), 5000)); fault.KindOf(err) != fault.Invalid {
		t.Errorf("an archive that is cut: %v", err)
	}
	if _, err := c.PutMachineTree(ctx, "/workspace", remote.TreeOptions{}, archiveOf(t, "trees", "x")); fault.KindOf(err) != fault.Precondition || !strings.Contains(err.Error(), `"trees"`) {
		t.Errorf("a file over a folder: %v", err)
	}
}

func testFileRefusals(t *testing.T, h *home, c *remote.Client) {
	check(t, os.Symlink("/etc", filepath.Join(h.files(), "out")))
	check(t, os.MkdirAll(filepath.Join(h.files(), "folder/below"), 0o755))
	ctx := t.Context()
	ways := map[string]func(path string) error{
		"read":  func(p string) error { return c.ReadFile(ctx, p, 0, 0, io.Discard) },
		"list":  func(p string) error { return c.List(ctx, p, false, func(listing.Entry) error { return nil }) },
		"tree":  func(p string) error { return c.ReadTree(ctx, p, io.Discard) },
		"write": func(p string) error { return c.WriteFile(ctx, p, 0, 1, strings.NewReader("x")) },
	}
	for _, way := range []string{"read", "list", "tree", "write"} { // write comes last, because it creates the files
		try := ways[way]
		for path, want := range map[string][]fault.Kind{
			"out/passwd":                     {fault.Permission},
			"../../../etc/passwd":            {fault.Invalid, fault.Permission},
			"/etc/passwd":                    {fault.Invalid, fault.Permission},
			"a//b":                           {fault.Invalid},
			"a\x00b":                         {fault.Invalid},
			strings.Repeat("x", 300):         {fault.Invalid, fault.Precondition, fault.NotFound},
			strings.Repeat("x/", 4000) + "x": {fault.Invalid},
			"none/of this":                   {fault.NotFound, ""},
			"no\x7fne":                       {fault.NotFound, ""}, // bytes that an HTTP header can't contain
			"no\xff\xfene":                   {fault.NotFound, ""},
			"no\n\r\u0085ne":                 {fault.NotFound, ""},
			strings.Repeat(strings.Repeat("<", 200)+"/", 19) + "x":    {fault.NotFound, ""}, // six times longer in JSON
			strings.Repeat(strings.Repeat("\x01", 200)+"/", 19) + "x": {fault.NotFound, ""},
		} {
			err, ok := try(path), false
			for _, k := range want {
				ok = ok || fault.KindOf(err) == k && err != nil || k == "" && way == "write" && err == nil // a write creates the file
			}
			if !ok {
				t.Errorf("%s of %.60q: %s: %.300v", way, path, fault.KindOf(err), err)
			}
			if err != nil && strings.Contains(err.Error(), "supervisor is gone") {
				t.Errorf("%s of %.60q was accepted as the end: %.300v", way, path, err)
			}
		}
	}
	if err := ways["read"]("folder"); fault.KindOf(err) != fault.Precondition && fault.KindOf(err) != fault.Invalid {
		t.Errorf("a folder was read: %s: %v", fault.KindOf(err), err)
	}
	if err := ways["write"]("folder"); fault.KindOf(err) != fault.Precondition && fault.KindOf(err) != fault.Exists && fault.KindOf(err) != fault.Invalid {
		t.Errorf("a folder was replaced: %s: %v", fault.KindOf(err), err)
	}
	if _, err := c.Change(ctx, strings.NewReader(strings.Repeat("no archive ", 1000))); fault.KindOf(err) != fault.Invalid && fault.KindOf(err) != fault.Corrupt {
		t.Errorf("invalid archive: got kind %s: %v", fault.KindOf(err), err)
	}
	if _, err := c.Change(ctx, archiveOf(t, "ok", "1", "../evil", "2")); err == nil || exists(h, "ok") {
		t.Errorf("a half of a change: %v", err)
	}
}

func exists(h *home, path string) bool {
	_, err := os.Lstat(filepath.Join(h.files(), path))
	return err == nil
}

// spoiler is a writer that calls the function do at the first write.
type spoiler struct {
	do func()
	n  int64
}

func (s *spoiler) Write(b []byte) (int, error) {
	if s.n == 0 {
		s.do()
	}
	s.n += int64(len(b))
	return len(b), nil
}

// TestUnreadCallsDelayNobody checks that unread calls do not delay other callers. It starts many
// reads and a command, and does not receive their content. During that time it runs another
// command.
func TestUnreadCallsDelayNobody(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	f, err := os.Create(filepath.Join(h.files(), "large"))
	check(t, err)
	check(t, errors.Join(f.Truncate(64<<20), f.Close()))
	var callers sync.WaitGroup
	began, over := make(chan bool, 64), make(chan bool)
	stuck := writerFunc(func([]byte) (int, error) {
		began <- true
		<-over
		return 0, errTook
	})
	const readers = 20
	for range readers {
		callers.Go(func() {
			if err := c.ReadFile(t.Context(), "large", 0, 0, stuck); !errors.Is(err, errTook) {
				t.Errorf("got %v", err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	callers.Go(func() { c.Exec(ctx, sh("yes"), program.Attach{Stdout: stuck}) })
	for range readers + 1 {
		<-began
	}
	for range 3 {
		run, cancel := context.WithTimeout(t.Context(), testenv.Patience)
		var out bytes.Buffer
		if _, err := c.Exec(run, sh("head -c 300000 /dev/zero"), program.Attach{Stdout: &out}); err != nil || out.Len() != 300000 {
			t.Errorf("%d bytes, %v", out.Len(), err)
		}
		cancel()
	}
	cancel()
	close(over)
	callers.Wait()
}

// writerFunc is a function that implements io.Writer.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

var errTook = errors.New("it takes no more")

// TestErrorsBeforeAndAfterContent checks the errors that a client gets if the server fails
// at different moments. It also checks an older server that speaks only HTTP/2.
func TestErrorsBeforeAndAfterContent(t *testing.T) {
	t.Parallel()
	var older http.Protocols
	older.SetUnencryptedHTTP2(true)
	t.Run("a supervisor", func(t *testing.T) { runFailingTransfers(t, protocols()) })
	t.Run("an older supervisor", func(t *testing.T) { runFailingTransfers(t, &older) })
}

func runFailingTransfers(t *testing.T, speaks *http.Protocols) {
	d := &daemon{free: make(chan struct{}), flushed: make(chan struct{}), activity: newActivity(0, 0, func(_, _ time.Time) error { return nil })}
	close(d.free)
	defer d.activity.close()
	reported := fault.New(fault.Precondition, "read", "x", "it \x7f \xff \u0085 <changed> \n\r").WithHint("read it again")
	s := &server{daemon: d}
	mux := http.NewServeMux()
	mux.Handle("GET "+remote.FilePath, s.operation(func(w *content.Answer, r *http.Request) error {
		size, err := content.Number(r.URL.Query(), "limit")
		check(t, err)
		w.Write(make([]byte, size))
		if r.URL.Query().Get("path") == "dies" {
			panic(http.ErrAbortHandler)
		}
		if r.URL.Query().Get("path") == "fails" {
			return reported
		}
		return nil
	}))
	folder := remote.Folder(t.TempDir())
	listener, err := remote.Listen(folder)
	check(t, err)
	serving := &http.Server{Handler: mux, Protocols: speaks}
	go serving.Serve(listener)
	defer serving.Close()
	c, err := remote.Dial(t.Context(), folder)
	check(t, err)
	defer c.Close()
	for _, size := range []int64{0, 1, 60 << 10, 70 << 10, 8 << 20} {
		var got bytes.Buffer
		if err := c.ReadFile(t.Context(), "well", 0, size, &got); err != nil || int64(got.Len()) != size {
			t.Errorf("%d of %d bytes, %v", got.Len(), size, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience) // much longer than the error takes to arrive
		err := c.ReadFile(ctx, "fails", 0, size, io.Discard)
		cancel()
		if fault.KindOf(err) != fault.Precondition || fault.HintOf(err) != "read it again" || !strings.Contains(err.Error(), "<changed>") {
			t.Errorf("after %d bytes: %s, hint %q: %v", size, fault.KindOf(err), fault.HintOf(err), err)
		}
		if err := c.ReadFile(t.Context(), "dies", 0, size, io.Discard); fault.KindOf(err) != fault.Unavailable || fault.HintOf(err) == "" {
			t.Errorf("cut after %d bytes: %s, %v", size, fault.KindOf(err), err)
		}
	}
}

// afterwards checks that the machine still works.
func (h *home) afterwards(t *testing.T, c *remote.Client) {
	t.Helper()
	var got bytes.Buffer
	check(t, c.WriteFile(t.Context(), "after", 0, 2, strings.NewReader("ok")))
	if err := c.ReadFile(t.Context(), "after", 0, 0, &got); err != nil || got.String() != "ok" {
		t.Errorf("%q, %v", got.String(), err)
	}
}

// testOwnErrors checks that errors from the caller's readers and writers are returned. It also
// checks that failed operations leave nothing behind.
func testOwnErrors(t *testing.T, h *home, c *remote.Client) {
	own := fault.Newf(fault.Precondition, "the caller's own").WithHint("mend it")
	broken := io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<20)), failing{own})
	err := c.WriteFile(t.Context(), "half", 0, 2<<20, broken)
	if !errors.Is(err, own) || fault.KindOf(err) != fault.Precondition || fault.HintOf(err) != "mend it" {
		t.Errorf("write: %s, hint %q: %v", fault.KindOf(err), fault.HintOf(err), err)
	}
	if _, err := c.Change(t.Context(), io.MultiReader(io.LimitReader(archiveOf(t, "half", strings.Repeat("x", 1<<20)), 1<<19), failing{own})); !errors.Is(err, own) || fault.KindOf(err) != fault.Precondition {
		t.Errorf("change: %s: %v", fault.KindOf(err), err)
	}
	if exists(h, "half") {
		t.Error("got a partial file")
	}
	if err := c.WriteFile(t.Context(), "half", 0, 5, strings.NewReader("four")); err == nil || exists(h, "half") {
		t.Errorf("4 bytes written as 5: %v", err)
	}
	check(t, c.WriteFile(t.Context(), "much", 0, 8<<20, strings.NewReader(strings.Repeat("x", 8<<20))))
	if err := c.ReadFile(t.Context(), "much", 0, 0, failing{own}); !errors.Is(err, own) {
		t.Errorf("read: %v", err)
	}
	if err := c.List(t.Context(), "", true, func(listing.Entry) error { return own }); !errors.Is(err, own) {
		t.Errorf("list: %v", err)
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := c.ReadFile(ctx, "much", 0, 0, &spoiler{do: func() { cancel(enough) }}); err != nil && !errors.Is(err, enough) {
		t.Errorf("a read that was cancelled: %v", err)
	}
	h.afterwards(t, c)
}

func testFilesAtOnce(t *testing.T, h *home, c *remote.Client) {
	done := make(chan error)
	a, b := strings.Repeat("a", 300<<10), strings.Repeat("b", 300<<10)
	for i := range 16 {
		text := a
		if i%2 == 1 {
			text = b
		}
		go func() {
			err := c.WriteFile(context.Background(), "fought/over", 0, int64(len(text)), strings.NewReader(text))
			var got bytes.Buffer
			if err == nil {
				err = c.ReadFile(context.Background(), "fought/over", 0, 0, &got)
			}
			if s := got.String(); err == nil && s != a && s != b {
				err = errors.New("a mixture of two files was read")
			}
			done <- err
		}()
	}
	for range 16 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(h.files()), "pending", "*")); err != nil || left != nil {
		t.Errorf("left: %q, %v", left, err)
	}
}

// TestMachineDiesDuringRead checks that the reader gets an error instead of an
// incomplete file.
func TestMachineDiesDuringRead(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	path := filepath.Join(h.files(), "large")
	check(t, os.WriteFile(path, nil, 0o600))
	check(t, os.Truncate(path, 1<<30))
	s, err := c.Status(t.Context())
	check(t, err)
	to := &spoiler{do: func() { syscall.Kill(s.MachinePID, syscall.SIGKILL) }}
	err = c.ReadFile(t.Context(), "large", 0, 0, to)
	if fault.KindOf(err) != fault.Unavailable || to.n == 1<<30 {
		t.Errorf("%s after %d bytes: %v", fault.KindOf(err), to.n, err)
	}
	h.ended(t)
}
