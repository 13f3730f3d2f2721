package pty

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

func open(t *testing.T) (controlling, tty *os.File) {
	t.Helper()
	controlling, tty, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		controlling.Close()
		tty.Close()
	})
	return controlling, tty
}

// write types text and waits until programs can read it.
func write(t *testing.T, controlling *os.File, text string) {
	t.Helper()
	if _, err := controlling.WriteString(text); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(testenv.Patience); Unread(controlling) < len(text); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("a program can read %d bytes of %q", Unread(controlling), text)
		}
	}
}

// answers are the results of reads, one after the other. An empty answer is EIO, as are all reads
// after the last answer.
type answers []string

func (a *answers) Read(b []byte) (n int, err error) {
	if len(*a) > 0 {
		n = copy(b, (*a)[0])
		*a = (*a)[1:]
	}
	if n == 0 {
		err = &os.PathError{Op: "read", Path: "/dev/ptmx", Err: unix.EIO}
	}
	return n, err
}

func TestRead(t *testing.T) {
	all := func(from io.Reader) (text string, err error) {
		b := make([]byte, 100)
		for {
			n, err := Read(from, b)
			text += string(b[:n])
			if err != nil {
				return text, err
			}
		}
	}
	if text, err := all(&answers{"go\n", "", "over\n"}); text != "go\nover\n" || !errors.Is(err, unix.EIO) {
		t.Errorf("early EIO: %q, %v", text, err)
	}
	controlling, tty := open(t)
	tty.WriteString("go\n")
	tty.Close()
	if text, err := all(controlling); text != "go\r\n" || !errors.Is(err, unix.EIO) {
		t.Errorf("closed terminal: %q, %v", text, err)
	}
	controlling, _ = open(t)
	controlling.SetReadDeadline(time.Unix(1, 0))
	if text, err := all(controlling); text != "" || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("deadline: %q, %v", text, err)
	}
}

func TestDiscardInput(t *testing.T) {
	controlling, tty := open(t)
	write(t, controlling, "old\n")
	DiscardInput(controlling)
	if n := Unread(controlling); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
	write(t, controlling, "new\n")
	b := make([]byte, 100)
	if n, err := tty.Read(b); err != nil || string(b[:n]) != "new\n" {
		t.Errorf("got %q, %v", b[:n], err)
	}
}

// TestDeadline checks that a write to a full terminal can be interrupted, also after all other
// functions were called.
func TestDeadline(t *testing.T) {
	controlling, _ := open(t)
	if err := SetSize(controlling, 100, 30); err != nil {
		t.Fatal(err)
	}
	Settings(controlling)
	Foreground(controlling)
	Unread(controlling)
	DiscardInput(controlling)
	time.AfterFunc(10*time.Millisecond, func() { controlling.SetWriteDeadline(time.Unix(1, 0)) })
	if _, err := controlling.WriteString(strings.Repeat("x\n", 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestSetSize(t *testing.T) {
	controlling, tty := open(t)
	if err := SetSize(controlling, 100, 30); err != nil {
		t.Fatal(err)
	}
	size, err := unix.IoctlGetWinsize(int(tty.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col != 100 || size.Row != 30 {
		t.Errorf("got %v, %v", size, err)
	}
	controlling.Close()
	if err := SetSize(controlling, 1, 1); err == nil {
		t.Error("the size of a closed terminal was set")
	}
}

func TestSignalKeys(t *testing.T) {
	controlling, tty := open(t)
	change := func(f func(*unix.Termios)) {
		t.Helper()
		settings, err := Settings(tty)
		if err != nil {
			t.Fatal(err)
		}
		f(settings)
		if err := unix.IoctlSetTermios(int(tty.Fd()), unix.TCSETS, settings); err != nil {
			t.Fatal(err)
		}
	}
	keys := SignalKeys(controlling)
	if keys.Of[syscall.SIGINT] != 3 || keys.Of[syscall.SIGQUIT] != 28 || keys.Of[syscall.SIGTSTP] != 26 || len(keys.Of) != 3 {
		t.Errorf("got %v", keys)
	}
	if !keys.DiscardsFor(syscall.SIGINT) || keys.DiscardsFor(syscall.SIGTERM) {
		t.Errorf("got %v", keys)
	}
	if keys.First([]byte("ab\x1a\x03")) != 2 || keys.First([]byte("ab")) != -1 {
		t.Error("the wrong first key")
	}
	change(func(s *unix.Termios) { s.Cc[unix.VINTR] = 0 })
	if keys := SignalKeys(controlling); keys.DiscardsFor(syscall.SIGINT) || !keys.DiscardsFor(syscall.SIGQUIT) || keys.First([]byte{0}) != -1 {
		t.Errorf("without a key for SIGINT: got %v", keys)
	}
	change(func(s *unix.Termios) { s.Lflag |= unix.NOFLSH })
	if keys := SignalKeys(controlling); keys.DiscardsFor(syscall.SIGQUIT) || len(keys.Of) != 2 {
		t.Errorf("with noflsh: got %v", keys)
	}
	change(func(s *unix.Termios) { s.Lflag &^= unix.ISIG })
	if keys := SignalKeys(controlling); len(keys.Of) != 0 {
		t.Errorf("without isig: got %v", keys)
	}
}

func TestTypeSignal(t *testing.T) {
	controlling, tty := open(t)
	if group, known := Foreground(controlling); group != 0 || !known {
		t.Errorf("without a program: got %d, %v", group, known)
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	cmd.Stdin, cmd.Stdout = tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if group, known := Foreground(controlling); group != cmd.Process.Pid || !known {
		t.Errorf("got the group %d, %v instead of %d", group, known, cmd.Process.Pid)
	}
	write(t, controlling, "unread\n")
	if TypeSignal(controlling, syscall.SIGINT) {
		t.Error("typed behind unread input")
	}
	DiscardInput(controlling)
	if TypeSignal(controlling, syscall.SIGTERM) {
		t.Error("typed a signal without a key")
	}
	if !TypeSignal(controlling, syscall.SIGINT) {
		t.Error("can't type the key for SIGINT")
	}
	cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGINT {
		t.Errorf("the program ended with %v", status)
	}
}
