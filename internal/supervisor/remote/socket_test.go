package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// strangerEnv is set to a folder if this program must run as runStranger.
const strangerEnv = "PYRO_REMOTE_TEST_STRANGER"

func TestSocketInLongPath(t *testing.T) {
	top := t.TempDir()
	for len(top) < 2000 {
		top = filepath.Join(top, strings.Repeat("long", 50))
	}
	check(t, os.MkdirAll(top, 0o700))
	talk(t, Folder(top))
}

func TestSocketIsReopened(t *testing.T) {
	f := Folder(t.TempDir())
	talk(t, f)
	if entries, _ := os.ReadDir(string(f)); len(entries) != 0 {
		t.Errorf("left: %v", entries)
	}
	talk(t, f)
}

// talk checks that both ends of a socket receive what the other end sends.
func talk(t *testing.T, f Folder) {
	t.Helper()
	l, err := Listen(f)
	check(t, err)
	defer l.Close()
	if info, err := os.Lstat(f.path(socketName)); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	go greet(l)
	conn, err := reach(t.Context(), f)
	check(t, err)
	defer conn.Close()
	if said, err := io.ReadAll(conn); err != nil || string(said) != "hello" {
		t.Errorf("%q, %v", said, err)
	}
}

func greet(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		conn.Write([]byte("hello"))
		conn.Close()
	}
}

func TestDialStopped(t *testing.T) {
	stale := Folder(t.TempDir())
	l, err := net.Listen("unix", stale.path(socketName)) // the socket's owner was killed
	check(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	check(t, l.Close())
	for name, f := range map[string]Folder{"no folder": stale + "/none", "an empty folder": Folder(t.TempDir()), "a socket without a server": stale} {
		c, err := Dial(t.Context(), f)
		if fault.KindOf(err) != fault.Precondition || !strings.Contains(fault.HintOf(err), "pyro workspace start") || c != nil {
			t.Errorf("%s: %s, hint %q: %v", name, fault.KindOf(err), fault.HintOf(err), err)
		}
	}
}

func TestDialWaitsForStart(t *testing.T) {
	f := Folder(t.TempDir())
	lock, err := f.Take()
	check(t, err)
	defer lock.Release()
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Millisecond, enough)
	defer cancel()
	if _, err := Dial(ctx, f); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
	if _, err := Dial(ctx, f); !errors.Is(err, enough) {
		t.Errorf("with a context that has ended: %v", err)
	}
	opened := make(chan net.Listener, 1)
	time.AfterFunc(50*time.Millisecond, func() {
		l, err := Listen(f)
		if err != nil {
			t.Error(err)
		}
		go greet(l)
		opened <- l
	})
	conn, err := reach(t.Context(), f)
	check(t, err)
	conn.Close()
	(<-opened).Close()
	time.AfterFunc(30*time.Millisecond, lock.Release)
	if _, err := reach(t.Context(), f); fault.KindOf(err) != fault.Precondition {
		t.Errorf("one that ended while it was waited for: %v", err)
	}
}

// TestCloseReleasesConnection checks that Close closes the connection of a client, even if
// the client was never used.
func TestCloseReleasesConnection(t *testing.T) {
	f := Folder(t.TempDir())
	l, err := Listen(f)
	check(t, err)
	defer l.Close()
	ended := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			conn.SetReadDeadline(time.Now().Add(testenv.Patience))
			_, err = conn.Read(make([]byte, 1))
			conn.Close()
		}
		ended <- err
	}()
	c, err := Dial(t.Context(), f)
	check(t, err)
	check(t, c.Close())
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Errorf("error at the other end: got %v, want EOF", err)
	}
}

// TestCloseEndsCalls checks that Close ends a call that is never answered.
func TestCloseEndsCalls(t *testing.T) {
	f := Folder(t.TempDir())
	l, err := Listen(f)
	check(t, err)
	accepted := make(chan net.Conn, 1)
	go func() {
		if conn, err := l.Accept(); err == nil {
			go io.Copy(io.Discard, conn)
			accepted <- conn
		}
	}()
	c, err := Dial(t.Context(), f)
	check(t, err)
	done := make(chan error, 1)
	go func() { _, err := c.Status(context.Background()); done <- err }()
	time.Sleep(100 * time.Millisecond)
	check(t, c.Close())
	select {
	case err := <-done:
		if err == nil {
			t.Error("it was answered")
		}
	case <-time.After(testenv.Patience):
		t.Error("an operation still runs after Close")
	}
	(<-accepted).Close() // this also ends running calls
	l.Close()
	if t.Failed() {
		<-done
	}
}

// runStranger connects to the socket in a folder and prints what it receives.
func runStranger(folder string) int {
	conn, err := net.Dial("unix", filepath.Join(folder, socketName))
	if err != nil {
		fmt.Print("refused: ", err)
		return 0
	}
	conn.SetDeadline(time.Now().Add(testenv.Patience))
	said, err := io.ReadAll(conn)
	fmt.Printf("heard %q, %v", said, err)
	return 0
}

// TestOtherUsersAreRefused checks that the socket refuses other users, even if they have access
// to the folder.
func TestOtherUsersAreRefused(t *testing.T) {
	testenv.NeedsRoot(t, "become another user")
	top, err := os.MkdirTemp("", "pyro-stranger-")
	check(t, err)
	defer os.RemoveAll(top)
	f, program := Folder(filepath.Join(top, "folder")), filepath.Join(top, "stranger")
	check(t, os.Mkdir(string(f), 0o777))
	text, err := os.ReadFile(os.Args[0])
	check(t, err)
	check(t, testenv.WriteProgram(program, text))
	l, err := Listen(f)
	check(t, err)
	defer l.Close()
	go greet(l)
	ask := func(uid uint32) string {
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), strangerEnv+"="+string(f))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.CombinedOutput()
		check(t, err)
		return string(out)
	}
	check(t, os.Chmod(top, 0o755))
	if said := ask(65534); !strings.HasPrefix(said, "refused: ") || !strings.Contains(said, "permission denied") {
		t.Errorf("the socket as it is: %s", said)
	}
	for path, mode := range map[string]os.FileMode{string(f): 0o777, f.path(socketName): 0o777} {
		check(t, os.Chmod(path, mode))
	}
	if said := ask(65534); !strings.HasPrefix(said, `heard ""`) {
		t.Errorf("another user %s", said)
	}
	if said := ask(0); said != `heard "hello", <nil>` {
		t.Errorf("root %s", said)
	}
}
