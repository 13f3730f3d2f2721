// Package pane runs programs in the panes of a tmux server that only pyro uses. The package does
// not touch the user's tmux servers.
//
// The server runs as long as it has panes. Each pane has its own window, so each pane can have its
// own size.
package pane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
)

// Pane identifies a pane.
type Pane struct {
	Folder  string // contains the server's socket and configuration
	Session string // tmux session; several panes can share one
	Window  string // tmux window; the name is unique in the server
}

// Found describes a pane.
type Found struct {
	Server   int    // PID of the server
	PID      int    // PID of the program in the pane
	TTY      string // path of the pane's terminal
	Dead     bool   // the program has ended
	Status   unix.WaitStatus
	KnowsEnd bool // Status is set; versions of tmux before 3.3 do not report signals
}

// Errors that Find and the operations on a pane return.
var (
	ErrNoServer = errors.New("there is no tmux server")
	ErrNoPane   = errors.New("tmux has no such pane")
)

const (
	socketName = "socket"
	patience   = 10 * time.Second // time limit for a response from tmux
	statusTime = 2 * time.Second  // time limit for tmux to report an exit status
	endTime    = 3 * time.Second  // time limit for a server without panes to end
)

// configuration is the server's configuration. The option "window-size manual" makes tmux 3.3
// crash, so Open sets the size of each window instead.
const configuration = `set -g status off
set -g remain-on-exit on
set -g history-limit 0
set -g allow-rename off
set -g automatic-rename off
set -g set-titles off
set -g bell-action none
set -g visual-bell off
set -g prefix None
set -g update-environment ""
set -g destroy-unattached off
set -s exit-empty on
set -s exit-unattached off
set -s set-clipboard off
set -s escape-time 0
set -s default-terminal xterm-256color
`

// Open starts a program in a new pane. tmux drops the program's output until Pipe is called.
func (p Pane) Open(ctx context.Context, cols, rows int, program ...string) (Found, error) {
	if _, err := exec.LookPath("tmux"); err != nil {
		return Found{}, fault.Newf(fault.Unavailable, "there is no tmux: %w", err).WithHint("install tmux 3.x, as with apt install tmux")
	}
	if err := os.MkdirAll(p.Folder, 0o700); err != nil {
		return Found{}, err
	}
	unlock, err := p.lock(ctx)
	if err != nil {
		return Found{}, err
	}
	defer unlock()
	if err := os.WriteFile(filepath.Join(p.Folder, "conf"), []byte(configuration), 0o600); err != nil {
		return Found{}, err
	}
	create := []string{"new-session", "-d", "-s", p.Session, "-n", p.Window, "-x", strconv.Itoa(cols), "-y", strconv.Itoa(rows), "--"}
	if _, err := p.tmux(ctx, "has-session", "-t", "="+p.Session); err == nil {
		create = []string{"new-window", "-d", "-t", "=" + p.Session + ":", "-n", p.Window, "--"}
	}
	if _, err := p.tmux(ctx, append(create, program...)...); err != nil {
		return Found{}, errors.Join(err, p.sweep(ctx))
	}
	found, err := p.Find(ctx)
	if err == nil {
		err = p.Resize(ctx, cols, rows)
	}
	return found, err
}

// Find looks up the pane. ErrNoServer or ErrNoPane: the pane does not exist. Precondition: the
// window has several panes or is in another tmux session.
func (p Pane) Find(ctx context.Context) (Found, error) {
	const format = "#{session_name} #{window_name} #{pid} #{pane_pid} #{pane_tty} #{pane_dead} c#{pane_dead_status} s#{pane_dead_signal}"
	out, err := p.tmux(ctx, "list-panes", "-a", "-F", format)
	if err != nil {
		return Found{}, err
	}
	var found []Found
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) != 8 || fields[1] != p.Window {
			continue
		}
		if fields[0] != p.Session {
			return Found{}, fault.Newf(fault.Precondition, "its tmux window is in the session %s, not in %s", fields[0], p.Session)
		}
		f := Found{TTY: fields[4], Dead: fields[5] == "1"}
		f.Server, _ = strconv.Atoi(fields[2])
		f.PID, _ = strconv.Atoi(fields[3])
		if code, err := strconv.Atoi(fields[6][1:]); err == nil {
			f.Status, f.KnowsEnd = unix.WaitStatus(code<<8), true
		} else if signal, err := strconv.Atoi(fields[7][1:]); err == nil {
			f.Status, f.KnowsEnd = unix.WaitStatus(signal), true
		}
		found = append(found, f)
	}
	switch len(found) {
	case 0:
		return Found{}, ErrNoPane
	case 1:
		return found[0], nil
	}
	return Found{}, fault.Newf(fault.Precondition, "tmux has %d panes for it, not one", len(found))
}

// End is like Find, but for a pane whose program has ended. It waits until tmux reports how the
// program ended and has forwarded all output, but at most statusTime. If another program runs in
// the pane, End returns immediately.
func (p Pane) End(ctx context.Context, pid int) (Found, error) {
	for deadline := time.Now().Add(statusTime); ; time.Sleep(2 * time.Millisecond) {
		f, err := p.Find(ctx)
		if err != nil || f.PID != pid || f.Dead && f.KnowsEnd || time.Now().After(deadline) {
			return f, err
		}
		unix.Kill(f.Server, unix.SIGCHLD) // tmux 3.3 misses some SIGCHLD signals until the next one
	}
}

// Pipe sends all later output of the pane to the standard input of a program.
func (p Pane) Pipe(ctx context.Context, program ...string) error {
	command := "exec"
	for _, word := range program {
		command += " '" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	// tmux expands its formats and strftime sequences in the command, so escape both.
	_, err := p.tmux(ctx, "pipe-pane", "-t", p.target(), strings.NewReplacer("#", "##", "%", "%%").Replace(command))
	return err
}

// maxTyped is the maximum number of bytes that one command types. tmux accepts 16 KiB of arguments.
const maxTyped = 1024

// Type types bytes into the pane. tmux does not change them.
func (p Pane) Type(ctx context.Context, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), maxTyped)
		args := []string{"send-keys", "-t", p.target(), "-H"}
		for _, c := range b[:n] {
			args = append(args, strconv.FormatUint(uint64(c), 16))
		}
		if _, err := p.tmux(ctx, args...); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// Resize sets the size of the pane.
func (p Pane) Resize(ctx context.Context, cols, rows int) error {
	_, err := p.tmux(ctx, "resize-window", "-t", p.target(), "-x", strconv.Itoa(cols), "-y", strconv.Itoa(rows))
	return err
}

// Close removes the pane. When the last pane of a tmux session or server is removed, that session
// or server ends. Close is idempotent.
func (p Pane) Close(ctx context.Context) error {
	unlock, err := p.lock(ctx)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := p.tmux(ctx, "kill-window", "-t", p.target()); err != nil && !errors.Is(err, ErrNoServer) && !errors.Is(err, ErrNoPane) {
		return err
	}
	return p.sweep(ctx)
}

// sweep removes the server's socket if the server has ended or ends because it has no panes. The
// caller must hold the lock, so that no other process starts a server.
func (p Pane) sweep(ctx context.Context) error {
	for deadline := time.Now().Add(endTime); ; time.Sleep(5 * time.Millisecond) {
		out, err := p.tmux(ctx, "list-sessions", "-F", "#{session_name}")
		switch {
		case errors.Is(err, ErrNoServer):
			os.Remove(filepath.Join(p.Folder, socketName+".lock"))
			if err := os.Remove(filepath.Join(p.Folder, socketName)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			return nil
		case err != nil:
			return err
		case strings.TrimSpace(out) != "":
			return nil
		case time.Now().After(deadline):
			return fault.Newf(fault.Unavailable, "the tmux server of %s did not end in time", p.Folder)
		}
	}
}

func (p Pane) target() string { return "=" + p.Session + ":=" + p.Window }

// lock prevents other processes from starting or sweeping the server.
func (p Pane) lock(ctx context.Context) (func(), error) {
	l, err := flock.Take(ctx, filepath.Join(p.Folder, "lock"), flock.Exclusive, nil)
	if err != nil {
		return nil, err
	}
	return l.Release, nil
}

// tmux runs a tmux command on the server. The command runs in the folder, because the full path of
// the socket can be too long for a socket address.
func (p Pane) tmux(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "tmux", append([]string{"-u", "-S", socketName, "-f", "conf"}, args...)...)
	cmd.Dir = p.Folder
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TMUX") && !strings.HasPrefix(v, "PYRO_PTY_SESSION=") { // all panes would inherit these variables
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.WaitDelay = time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err == nil {
		return out.String(), nil
	}
	said := strings.TrimSpace(errs.String())
	switch {
	case ctx.Err() != nil:
		return "", fault.Newf(fault.Unavailable, "tmux does not answer: %w", context.Cause(ctx))
	case errors.Is(err, os.ErrNotExist), strings.HasPrefix(said, "no server running"), strings.HasPrefix(said, "error connecting"), strings.HasPrefix(said, "server exited"), strings.HasPrefix(said, "lost server"):
		return "", ErrNoServer
	case strings.HasPrefix(said, "can't find"):
		return "", ErrNoPane
	case strings.HasPrefix(said, "no current") && args[0] == "list-sessions":
		return "", nil
	}
	return "", fault.Newf(fault.Unavailable, "tmux %s: %w", args[0], fmt.Errorf("%w: %.300s", err, said))
}
