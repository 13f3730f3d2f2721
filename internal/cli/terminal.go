package cli

import (
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/pyro-mcp/pyro"
)

// terminal is the user's terminal while it is attached to a command in a machine.
type terminal struct {
	tty     *pyro.TTY
	resized chan os.Signal
	stopped chan struct{}

	mu       sync.Mutex
	cooked   *term.State // state before raw mode, or nil if raw was not called
	restored bool
}

// openTerminal reads the terminal's size, and reports size changes until restore is called. If
// there is no terminal, the size is 80 x 24.
func openTerminal() *terminal {
	sizes := make(chan pyro.WindowSize)
	t := &terminal{
		tty:     &pyro.TTY{Size: windowSize(), Resize: sizes, Term: os.Getenv("TERM")},
		resized: make(chan os.Signal, 1), stopped: make(chan struct{}),
	}
	signal.Notify(t.resized, syscall.SIGWINCH)
	go func() {
		for {
			select {
			case <-t.resized:
			case <-t.stopped:
				return
			}
			select {
			case sizes <- windowSize():
			case <-t.stopped:
				return
			}
		}
	}()
	return t
}

// raw sets the terminal to raw mode, so that keys such as Ctrl-C reach the command. It does nothing
// if standard input is not a terminal.
func (t *terminal) raw() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cooked == nil && !t.restored {
		t.cooked, _ = term.MakeRaw(int(os.Stdin.Fd()))
	}
}

// restore restores the state of the terminal. It is idempotent.
func (t *terminal) restore() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.restored {
		return
	}
	t.restored = true
	signal.Stop(t.resized)
	close(t.stopped)
	if t.cooked != nil {
		term.Restore(int(os.Stdin.Fd()), t.cooked)
	}
}

func windowSize() pyro.WindowSize {
	for _, f := range []*os.File{os.Stdout, os.Stdin, os.Stderr} {
		if cols, rows, err := term.GetSize(int(f.Fd())); err == nil && cols > 0 && rows > 0 {
			return pyro.WindowSize{Cols: min(cols, 1000), Rows: min(rows, 1000)}
		}
	}
	return pyro.WindowSize{Cols: 80, Rows: 24}
}

// standardInput returns the standard input for the command, or nil if the command should have none.
// It returns nil for /dev/null, so that the machine does not read it. It also returns nil if pyro
// runs in the background of its terminal, because a read would stop pyro.
func standardInput() io.Reader {
	fd := int(os.Stdin.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil
	}
	if null := unix.Mkdev(1, 3); st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == null {
		return nil
	}
	if foreground, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err == nil && foreground != unix.Getpgrp() {
		return nil
	}
	return os.Stdin
}

// lineStart is a writer that records whether the last write ended with a newline.
type lineStart struct {
	io.Writer
	at bool
}

func (l *lineStart) Write(b []byte) (int, error) {
	n, err := l.Writer.Write(b)
	if n > 0 {
		l.at = b[n-1] == '\n'
	}
	return n, err
}
