package session

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/socket"
)

// Ask asks the keeper of a session something. Precondition where there is none any more.
func (i Info) Ask(ctx context.Context, req Request) (Answer, error) {
	ended := func() error { return fault.New(fault.Precondition, "use session", i.ID, "it has ended") }
	raw, err := socket.Dial(string(i.Folder), SocketName)
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) {
		return Answer{Ended: true}, ended()
	}
	if err != nil {
		return Answer{}, err
	}
	c := NewConn(raw)
	defer c.Close()
	if !socket.Allowed(raw) {
		return Answer{}, fault.New(fault.Permission, "use session", i.ID, "its socket is another user's")
	}
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var a Answer
	if err = c.Send(req); err == nil {
		err = c.Receive(&a)
	}
	switch {
	case ctx.Err() != nil:
		return a, context.Cause(ctx)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		return Answer{Ended: true}, ended()
	case err != nil:
		return a, fault.Wrap(err, "use session", i.ID)
	case a.Error != nil:
		return a, a.Error.Err()
	}
	return a, nil
}

// Wait waits as a request says. That the session has ended meanwhile is no error.
func (i Info) Wait(ctx context.Context, req Request) error {
	req.Op = OpWait
	a, err := i.Ask(ctx, req)
	if a.Ended && ctx.Err() == nil {
		return nil
	}
	return err
}

// End ends a session: its programs are asked to end, and killed when they have not after a second. Idempotent.
func (i Info) End(ctx context.Context) error {
	if a, err := i.Ask(ctx, Request{Op: OpEnd}); err != nil && !a.Ended {
		return err
	}
	return nil
}

// killMarked kills all processes of this user that were started in a session.
func killMarked(id string) {
	mark := "\x00" + Variable + "=" + id + "\x00"
	for range 100 { // what forks meanwhile is found in the next round
		found := false
		entries, _ := os.ReadDir("/proc")
		for _, e := range entries {
			if e.Name()[0] < '1' || e.Name()[0] > '9' {
				continue
			}
			env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
			if err != nil || !strings.Contains("\x00"+string(env), mark) {
				continue
			}
			var pid int
			for _, c := range e.Name() {
				pid = pid*10 + int(c-'0')
			}
			if pid != os.Getpid() && unix.Kill(pid, unix.SIGKILL) == nil {
				found = true
			}
		}
		if !found {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Variable is in the environment of all that runs in a session: its id.
const Variable = "PYRO_PTY_SESSION"
