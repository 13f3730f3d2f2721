package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestFolderMatchesTar(t *testing.T) {
	src := project(t)
	want := describe(t, src)
	skipped := sockets(t, src)
	link := filepath.Join(t.TempDir(), "link")
	check(t, os.Symlink(src, link))
	for _, path := range []string{src, link} {
		stream, summary, err := seed(t, path, Policy{Devices: RefuseDevices})
		check(t, err)
		if want := (Summary{Files: 10, Directories: 48, Symlinks: 4, HardLinks: 2, Skipped: skipped, Bytes: 13 + 10 + 1 + 1_600_000 + 2 + 1 + 1 + 4 + 3<<20}); summary != want {
			t.Errorf("got %+v, want %+v", summary, want)
		}
		read(t, stream)
		dst := t.TempDir()
		archive := filepath.Join(t.TempDir(), "archive")
		check(t, os.WriteFile(archive, stream, 0o600))
		run(t, "tar", "-C", dst, "--no-same-owner", "-pxf", archive)
		same(t, describe(t, dst)[1:], want[1:])
	}
}

func TestFolderStreamIsDeterministic(t *testing.T) {
	src := project(t)
	source, err := Open(src)
	check(t, err)
	defer source.Close()
	var first, second bytes.Buffer
	_, err = source.WriteTar(t.Context(), &first, Policy{})
	check(t, err)
	_, err = source.WriteTar(t.Context(), &second, Policy{})
	check(t, err)
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two streams differ")
	}
}

func TestFilesAboveOctalSize(t *testing.T) {
	const size = 9 << 30
	src := t.TempDir()
	f, err := os.Create(filepath.Join(src, "huge"))
	check(t, err)
	check(t, errors.Join(f.Truncate(size), f.Close()))
	source, err := Open(src)
	check(t, err)
	defer source.Close()
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error)
	go func() {
		_, err := source.WriteTar(ctx, w, Policy{})
		w.CloseWithError(err)
		done <- err
	}()
	header, err := tar.NewReader(r).Next()
	check(t, err)
	if header.Size != size || header.Name != "huge" {
		t.Errorf("%+v", header)
	}
	cancel()
	r.Close()
	if err := <-done; err == nil {
		t.Error("wrote 9 GiB to a closed pipe")
	}
}

func TestFolderLimits(t *testing.T) {
	src := t.TempDir()
	check(t, os.Mkdir(filepath.Join(src, "d"), 0o755))
	put(t, filepath.Join(src, "d/a"), strings.Repeat("a", 1000), 0o644)
	put(t, filepath.Join(src, "d/b"), strings.Repeat("b", 1000), 0o644)
	_, _, err := seed(t, src, Policy{Limits: Limits{Bytes: 2000, Entries: 3}})
	check(t, err)
	_, _, err = seed(t, src, Policy{Limits: Limits{Bytes: 1999}})
	wantKind(t, err, fault.Exhausted, `d/b": its 1000 bytes exceed the limit of 1999 bytes in total`)
	_, _, err = seed(t, src, Policy{Limits: Limits{Entries: 2}})
	wantKind(t, err, fault.Exhausted, "more than 2 files and directories")
	at, err := os.OpenRoot(src)
	check(t, err)
	for range 20 {
		name := strings.Repeat("x", 250)
		check(t, at.Mkdir(name, 0o755))
		next, err := at.OpenRoot(name)
		check(t, errors.Join(err, at.Close()))
		at = next
	}
	check(t, at.Close())
	_, _, err = seed(t, src, Policy{})
	wantKind(t, err, fault.Invalid, "its path is longer than 4095 bytes")
}

// TestWithoutPrivilege runs the tests for ordinary users as an ordinary user.
func TestWithoutPrivilege(t *testing.T) {
	if !isRoot {
		t.Skip("needs root")
	}
	program, err := os.Executable()
	check(t, err)
	b, err := os.ReadFile(program)
	check(t, err)
	folder, err := os.MkdirTemp("", "archive-test-")
	check(t, err)
	defer os.RemoveAll(folder)
	check(t, os.Chmod(folder, 0o777))
	check(t, testenv.WriteProgram(filepath.Join(folder, "test"), b))
	cmd := exec.Command(filepath.Join(folder, "test"), "-test.run", "^(TestUnreadable.*|TestAnExport.*|TestForce.*|TestAFolderComes.*)$", "-test.v")
	cmd.Env, cmd.Dir = append(os.Environ(), "TMPDIR="+folder), folder
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestUnreadable") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestUnreadableFilesAreNamed(t *testing.T) {
	if isRoot {
		t.Skip("run by TestWithoutPrivilege")
	}
	src := t.TempDir()
	check(t, os.Mkdir(filepath.Join(src, "d"), 0o755))
	secret := filepath.Join(src, "d/secret")
	put(t, secret, "x", 0)
	_, _, err := seed(t, src, Policy{})
	wantKind(t, err, fault.Permission, `d/secret": it is not readable`)
	if hint := fault.HintOf(err); !strings.Contains(hint, secret) {
		t.Errorf("hint %q", hint)
	}
	check(t, os.Remove(secret))
	check(t, os.Chmod(filepath.Join(src, "d"), 0))
	_, _, err = seed(t, src, Policy{})
	wantKind(t, err, fault.Permission, `read folder "`+filepath.Join(src, "d"))
	_, err = Open(filepath.Join(src, "d/x.tar"))
	wantKind(t, err, fault.Permission, "x.tar")
}

// TestChangingFolderIsDetected changes a file at every step of the read. The result must be an
// error, or a complete stream of the old or new file.
func TestChangingFolderIsDetected(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	put(t, secret, "secret", 0o600)
	noticed := map[string]bool{}
	for name, change := range map[string]func(f string){
		"shorter":       func(f string) { os.Truncate(f, 10) },
		"longer":        func(f string) { os.Truncate(f, 10<<20) },
		"rewritten":     func(f string) { os.WriteFile(f, bytes.Repeat([]byte("f"), 600<<10), 0o644) },
		"gone":          func(f string) { os.Remove(f) },
		"a link":        func(f string) { os.Remove(f); os.Symlink(secret, f) },
		"a FIFO":        func(f string) { os.Remove(f); unix.Mkfifo(f, 0o600) },
		"folder linked": func(f string) { os.RemoveAll(filepath.Dir(f)); os.Symlink(filepath.Dir(secret), filepath.Dir(f)) },
	} {
		for step := range 12 {
			src := t.TempDir()
			check(t, os.Mkdir(filepath.Join(src, "d"), 0o755))
			f := filepath.Join(src, "d/f")
			put(t, f, strings.Repeat("f", 600<<10), 0o644)
			source, err := Open(src)
			check(t, err)
			var b bytes.Buffer
			_, err = source.WriteTar(&interference{t.Context(), step, func() { change(f) }}, &b, Policy{})
			source.Close()
			if err != nil {
				noticed[name] = true
				if wantKind(t, err, fault.Precondition, ""); !strings.Contains(err.Error(), src) {
					t.Errorf("%s at step %d: %v", name, step, err)
				}
				continue
			}
			_, content := read(t, b.Bytes())
			if f := content["d/f"]; strings.Count(f, "f")+strings.Count(f, "\x00") != len(f) || content["d/secret"] != "" {
				t.Errorf("%s at step %d: read content from outside", name, step)
			}
		}
		if !noticed[name] {
			t.Errorf("%s: no change was noticed", name)
		}
	}
}

// interference is a context whose method Err calls the function do once, after a number of calls.
// So a test can change a folder while the folder is read.
type interference struct {
	context.Context
	left int
	do   func()
}

func (i *interference) Err() error {
	if i.left--; i.left == -1 {
		i.do()
	}
	return nil
}

func TestWriterErrorsAreReturned(t *testing.T) {
	src := project(t)
	archive := filepath.Join(t.TempDir(), "a.tar")
	run(t, "tar", "-C", src, "--exclude=up", "--exclude=python", "-cf", archive, ".")
	full := errors.New("full")
	for _, path := range []string{src, archive} {
		source, err := Open(path)
		check(t, err)
		for _, room := range []int{0, 512, 100_000, 1_000_000} {
			if _, err := source.WriteTar(t.Context(), &narrow{room, full}, Policy{}); err != full {
				t.Errorf("%s after %d bytes: %v", path, room, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := source.WriteTar(ctx, io.Discard, Policy{}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		check(t, source.Close())
	}
}

// narrow is a writer that fails after a limited number of bytes.
type narrow struct {
	room int
	err  error
}

func (n *narrow) Write(p []byte) (int, error) {
	if len(p) > n.room {
		return 0, n.err
	}
	n.room -= len(p)
	return len(p), nil
}
