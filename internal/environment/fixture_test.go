package environment

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// TestMain also runs in child processes of the tests, see play.
func TestMain(m *testing.M) {
	if role := os.Getenv("PYRO_TEST_ROLE"); role != "" {
		play(role)
		return
	}
	goleak.VerifyTestMain(m)
}

// testStore returns a store that builds Debian environments from a small archive. Each build
// appends a letter to the file "builds" in the cache.
func testStore(cache string) *Store {
	s := Open(dirs.Dirs{Cache: cache, State: filepath.Join(cache, "state")})
	s.bootstrap = func(ctx context.Context, packages []string, dir string, out io.Writer, report progress.Func, subject string) error {
		report.Phase("installing packages", subject)
		builds, err := os.OpenFile(filepath.Join(cache, "builds"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		fmt.Fprint(builds, "b")
		builds.Close()
		if exists(filepath.Join(cache, "hang")) { // until the test removes it
			os.WriteFile(filepath.Join(dir, "leavings"), make([]byte, 1<<20), 0o600)
			os.WriteFile(filepath.Join(cache, "hanging"), nil, 0o600)
			for exists(filepath.Join(cache, "hang")) {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(10 * time.Millisecond):
				}
			}
		}
		content, _ := os.ReadFile(filepath.Join(cache, "content"))
		return writeArchive(out, map[string]string{"etc/packages": strings.Join(packages, "\n"), "content": string(content)})
	}
	s.kernelPackage = func(context.Context, string, progress.Func) (string, error) {
		return "", fault.Newf(fault.Unavailable, "no network in tests")
	}
	return s
}

func writeArchive(out io.Writer, files map[string]string) error {
	w := tar.NewWriter(out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(files[name])), Mode: 0o644}); err != nil {
			return err
		}
		if _, err := io.WriteString(w, files[name]); err != nil {
			return err
		}
	}
	return w.Close()
}

func builds(cache string) int {
	b, _ := os.ReadFile(filepath.Join(cache, "builds"))
	return len(b)
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// play runs the role of a child process. PYRO_TEST_CACHE is the path of the cache.
func play(role string) {
	s := testStore(os.Getenv("PYRO_TEST_CACHE"))
	switch role {
	case "use": // Report the digest, and use the environment until stdin ends.
		ref, err := s.Use(context.Background(), "debian:12", func(e progress.Event) { fmt.Fprintln(os.Stderr, e.Phase) })
		if err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		fmt.Println(ref.Digest)
		io.Copy(io.Discard, os.Stdin)
		ref.Close()
	}
}

type child struct {
	*exec.Cmd
	stdin          io.Closer
	stdout, stderr lockedBuffer
}

func start(t *testing.T, cache, role string) *child {
	t.Helper()
	c := &child{Cmd: exec.Command(os.Args[0])}
	c.Env = append(os.Environ(), "PYRO_TEST_ROLE="+role, "PYRO_TEST_CACHE="+cache)
	c.Stdout, c.Stderr = &c.stdout, &c.stderr
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.stdin = stdin
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.ProcessState == nil {
			c.Process.Kill()
			c.Wait()
		}
	})
	return c
}

func (c *child) kill(t *testing.T) {
	t.Helper()
	if err := c.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.Wait()
}

type lockedBuffer struct {
	mu sync.Mutex
	b  []byte
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, p...)
	return len(p), nil
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b)
}

// leftovers returns the temporary files that remain after all operations have ended.
func leftovers(t *testing.T, s *Store) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{s.root + "/staging-*", s.kernels + "/staging-*", s.root + "/*/.new-*", s.root + "/content/*/.new-*", s.kernels + "/.new-*"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, files...)
	}
	return found
}

func phasesOf(events *[]string) progress.Func {
	return func(e progress.Event) { *events = append(*events, e.Phase) }
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatalf("%v (hint %q)", err, fault.HintOf(err))
		}
		return v
	}
}
