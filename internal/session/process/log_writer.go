package process

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/session"
)

// writeLog reads the output of a pane from tmux and writes it to the log of the session. writeLog
// continues even if the session process is killed, and returns when the pane ends.
func writeLog(folder session.Folder, from io.Reader) error {
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGPIPE)
	ctx, cancel := context.WithTimeout(context.Background(), logWriterTime)
	defer cancel()
	lock, err := flock.Take(ctx, filepath.Join(string(folder), session.LogWriterLock), flock.Exclusive, nil)
	if err != nil {
		return err
	}
	defer lock.Release()
	spec, err := folder.Spec()
	if err != nil {
		return err
	}
	log, err := folder.Log(session.Output)
	if err != nil {
		return err
	}
	defer log.Close()
	pipe, err := os.OpenFile(filepath.Join(string(folder), notifyName), os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer pipe.Close()
	record := folder.Record(spec)
	defer record.Close()
	limit := throttle{folder: folder, spec: spec, rate: newRateLimiter(spec.OutputRate)}
	var mu sync.Mutex
	redactor := folder.NewRedactor(func(b []byte) {
		mu.Lock()
		defer mu.Unlock()
		log.Write(b)
		record.Write(b)
		notify(pipe)
	})
	defer redactor.Close()
	buffer := make([]byte, chunk)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			redactor.Write(buffer[:n])
			limit.wait(n)
		}
		if err != nil {
			return nil
		}
	}
}

// notify wakes the session process. If the pipe is full, a wakeup is already pending.
func notify(pipe *os.File) {
	if raw, err := pipe.SyscallConn(); err == nil {
		raw.Write(func(fd uintptr) bool { unix.Write(int(fd), []byte{0}); return true })
	}
}

// throttle stops the terminal while the program exceeds the output rate. This is needed because
// tmux reads output without a limit.
type throttle struct {
	folder session.Folder
	spec   session.Spec
	rate   rateLimiter
}

func (t *throttle) wait(n int) {
	left := t.rate.reserve(n)
	if left <= 0 {
		return
	}
	tty := -1
	ctx, cancel := context.WithTimeout(context.Background(), tmuxPatience)
	defer cancel()
	if found, err := t.folder.Pane(t.spec).Find(ctx); err == nil && !found.Dead {
		tty, _ = unix.Open(found.TTY, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	}
	if tty >= 0 {
		unix.IoctlSetInt(tty, unix.TCXONC, unix.TCOOFF)
		defer func() {
			unix.IoctlSetInt(tty, unix.TCXONC, unix.TCOON)
			unix.Close(tty)
		}()
	}
	for end := time.Now().Add(left); time.Now().Before(end); { // the throttle must not delay the end of the session
		if state, began, err := t.folder.State(); err != nil || began && (!state.Running() || unix.Kill(state.PID, 0) != nil) {
			return
		}
		time.Sleep(min(time.Until(end), 100*time.Millisecond))
	}
}

// follower reads a log while another process writes it.
type follower struct {
	log  *program.SharedLog
	pipe *os.File
	at   int64
}

func newFollower(folder session.Folder, pipe string) (*follower, error) {
	f := &follower{}
	var err error
	if f.pipe, err = os.OpenFile(pipe, os.O_RDWR|unix.O_NONBLOCK, 0); err != nil {
		return nil, err
	}
	if f.log, err = folder.Log(session.Output); err != nil {
		f.pipe.Close()
		return nil, err
	}
	f.at = f.log.Start()
	return f, nil
}

// Read returns new output. If the caller reads too slowly, Read skips output that has left the log.
// After Close, Read returns the remaining output, then io.EOF.
func (f *follower) Read(b []byte) (int, error) {
	news := make([]byte, 4096)
	for closed := false; ; {
		p, err := f.log.Read(f.at, len(b)/4)
		if err != nil {
			return 0, err
		}
		f.at = p.Next
		if len(p.Data) > 0 {
			return copy(b, p.Data), nil
		}
		if closed {
			return 0, errors.Join(io.EOF, f.log.Close())
		}
		if _, err := f.pipe.Read(news); err != nil {
			closed = true
		}
	}
}

// Close makes Read return io.EOF after the remaining output.
func (f *follower) Close() error { return f.pipe.Close() }
