package keeper

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
	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/transcript"
)

// relay writes what tmux gives it, all that is printed in a pane, into the log of a session. It goes on when the keeper is killed, and ends with the pane.
func relay(folder session.Folder, from io.Reader) error {
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGPIPE)
	ctx, cancel := context.WithTimeout(context.Background(), relayTime)
	defer cancel()
	lock, err := flock.Take(ctx, filepath.Join(string(folder), session.RelayLock), flock.Exclusive, nil)
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
	bell, err := os.OpenFile(filepath.Join(string(folder), bellName), os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer bell.Close()
	record := folder.Record(spec)
	defer record.Close()
	brake := brake{folder: folder, spec: spec, rate: newBucket(spec.OutputRate)}
	var mu sync.Mutex
	hider := folder.NewHider(func(b []byte) {
		mu.Lock()
		defer mu.Unlock()
		log.Write(b)
		record.Write(b)
		ring(bell)
	})
	defer hider.Close()
	buffer := make([]byte, chunk)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			hider.Write(buffer[:n])
			brake.wait(n)
		}
		if err != nil {
			return nil
		}
	}
}

// ring tells the keeper that there is news. Where the bell is full it knows.
func ring(bell *os.File) {
	if raw, err := bell.SyscallConn(); err == nil {
		raw.Write(func(fd uintptr) bool { unix.Write(int(fd), []byte{0}); return true })
	}
}

// brake has a program wait that prints faster than it may. tmux would take all of it, however long nobody reads: so the terminal is stopped.
type brake struct {
	folder session.Folder
	spec   session.Spec
	rate   bucket
}

func (b *brake) wait(n int) {
	left := b.rate.take(n)
	if left <= 0 {
		return
	}
	tty := -1
	ctx, cancel := context.WithTimeout(context.Background(), tmuxPatience)
	defer cancel()
	if found, err := b.folder.Pane(b.spec).Find(ctx); err == nil && !found.Dead {
		tty, _ = unix.Open(found.TTY, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	}
	if tty >= 0 {
		unix.IoctlSetInt(tty, unix.TCXONC, unix.TCOOFF)
		defer func() {
			unix.IoctlSetInt(tty, unix.TCXONC, unix.TCOON)
			unix.Close(tty)
		}()
	}
	for end := time.Now().Add(left); time.Now().Before(end); { // the end of the session does not wait for it
		if state, began, err := b.folder.State(); err != nil || began && (!state.Running() || unix.Kill(state.PID, 0) != nil) {
			return
		}
		time.Sleep(min(time.Until(end), 100*time.Millisecond))
	}
}

// follower reads a log that another process writes, from its end on, as that comes.
type follower struct {
	log  *transcript.Shared
	bell *os.File
	at   int64
}

func newFollower(folder session.Folder, bell string) (*follower, error) {
	f := &follower{}
	var err error
	if f.bell, err = os.OpenFile(bell, os.O_RDWR|unix.O_NONBLOCK, 0); err != nil {
		return nil, err
	}
	if f.log, err = folder.Log(session.Output); err != nil {
		f.bell.Close()
		return nil, err
	}
	f.at = f.log.Start()
	return f, nil
}

// Read gives what came. After Close it gives what is left, and io.EOF. What it was too slow for is left out.
func (f *follower) Read(b []byte) (int, error) {
	rung := make([]byte, 4096)
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
		if _, err := f.bell.Read(rung); err != nil {
			closed = true
		}
	}
}

// Close says that nothing more will come.
func (f *follower) Close() error { return f.bell.Close() }
