package gvisor

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// fakeSentry returns a sandbox whose sentry calls the function keep with the stream of the command
// "keep". Then the sentry answers, unless keep returns false.
func fakeSentry(t *testing.T, keep func(to io.Writer) bool) *sandbox {
	t.Helper()
	near, far, err := machine.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.FileConn(far)
	if err != nil {
		t.Fatal(err)
	}
	far.Close()
	t.Cleanup(func() { near.Close(); conn.Close() })
	go func() {
		rights := make([]byte, unix.CmsgSpace(4))
		if _, _, _, _, err := conn.(*net.UnixConn).ReadMsgUnix(make([]byte, 1<<10), rights); err != nil {
			return
		}
		messages, _ := unix.ParseSocketControlMessage(rights)
		fds, _ := unix.ParseUnixRights(&messages[0])
		to := os.NewFile(uintptr(fds[0]), "stream")
		answers := keep(to)
		if answers {
			to.Close()
			io.WriteString(conn, `{"event":"kept"}`+"\n")
			return
		}
		io.Copy(io.Discard, conn) // until the test ends
		to.Close()
	}()
	return &sandbox{control: newControl(near), done: make(chan struct{})}
}

// TestSlowKeep checks that a sentry that sends the root slowly can finish, and that one that sends
// nothing more can't.
func TestSlowKeep(t *testing.T) {
	t.Parallel()
	const parts = 5
	file := func() *os.File {
		f, err := os.Create(filepath.Join(t.TempDir(), "root"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	var f *os.File
	var slow error = errStalled
	// On a slow host, the sentry can pause for longer than a short limit. The sentry always needs
	// more time than the limit.
	for stall := 400 * time.Millisecond; errors.Is(slow, errStalled) && stall < testenv.Patience; stall *= 4 {
		f = file()
		slow = fakeSentry(t, func(to io.Writer) bool {
			for range parts {
				time.Sleep(stall / (parts - 1))
				to.Write([]byte("part"))
			}
			return true
		}).writeRoot(t.Context(), f, stall)
	}
	if slow != nil {
		t.Errorf("slow: %v", slow)
	}
	if kept, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(kept, bytes.Repeat([]byte("part"), parts)) {
		t.Errorf("it kept %q, %v", kept, err)
	}
	for name, keep := range map[string]func(io.Writer) bool{
		"no byte":    func(io.Writer) bool { return false },
		"some bytes": func(to io.Writer) bool { to.Write([]byte("part")); return false },
		"no answer":  func(to io.Writer) bool { to.(io.Closer).Close(); return false },
	} {
		if err := fakeSentry(t, keep).writeRoot(t.Context(), file(), 100*time.Millisecond); !errors.Is(err, errStalled) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
