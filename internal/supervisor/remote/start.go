package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// News is what a supervisor tells whoever starts it.
type News struct {
	Progress *progress.Event `json:"progress,omitempty"`
	Failed   *fault.Wire     `json:"failed,omitempty"`
	Ready    bool            `json:"ready,omitempty"`
	GoesOn   bool            `json:"goes_on,omitempty"` // a machine that was saved, which from then on runs for everybody
}

// maxNews bounds one of them.
const maxNews = 1 << 20

// Command is what pyro is called with where it is to be a supervisor. It reads its order from the standard input and tells its news on the standard output.
const Command = "supervise"

// supervisorEnv keeps the supervisor small: it is there as long as its machine, and has little to do.
var supervisorEnv = []string{"GOGC=40", "GOMEMLIMIT=32MiB"}

// handedOn is what a supervisor is given of the environment: what says where things are. Anything else, a secret for one, would stay with it for as long as its
// machine runs, and under host_compat reach every command.
func handedOn() (env []string) {
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		switch {
		case slices.Contains([]string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR"}, name),
			strings.HasPrefix(name, "LC_"), strings.HasPrefix(name, "XDG_"), strings.HasPrefix(name, "PYRO_"):
			env = append(env, variable)
		}
	}
	return env
}

// Starting is a supervisor that has started its machine and waits for the word to go on.
type Starting struct {
	order  io.WriteCloser
	news   io.Closer
	lines  *bufio.Scanner // of news
	cmd    *exec.Cmd
	paused bool // the machine goes on where it was saved
}

// Start starts a supervisor with a pyro program and waits until its machine is served. The caller must either Release it, upon which it goes on by itself, or
// Abandon it. It is the caller's child as long as the caller lives; nothing has to wait for it.
func Start(ctx context.Context, program string, o Order, report progress.Func) (*Starting, error) {
	s, err := start(ctx, program, o, report)
	return s, fault.Wrap(err, "start workspace", o.Workspace.ID)
}

func start(ctx context.Context, program string, o Order, report progress.Func) (*Starting, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(Folder(o.Folder).path(logFile), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(program, Command)
	cmd.Dir = "/"
	cmd.Stderr = log
	cmd.Env = append(handedOn(), supervisorEnv...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	order, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	news, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fault.Newf(fault.Unavailable, "its supervisor can't be started: %w", err)
	}
	s := &Starting{order, news, bufio.NewScanner(news), cmd, o.Workspace.Disks.Memory != ""}
	s.lines.Buffer(make([]byte, 0, 4<<10), maxNews)
	// One that does not even read its order has ended, and tells why by what it said, or did not.
	if _, err = order.Write(append(text, '\n')); err == nil || errors.Is(err, syscall.EPIPE) {
		err = s.await(ctx, report)
	}
	if err != nil {
		s.Abandon()
		return nil, err
	}
	return s, nil
}

// await passes the news on until the supervisor is ready, has failed, or ctx ends.
func (s *Starting) await(ctx context.Context, report progress.Func) error {
	stop := context.AfterFunc(ctx, func() { s.order.Close(); s.cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	err := s.hear(report)
	if errors.Is(err, errEnded) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// hear passes the news on until the supervisor is where it wanted to get, or has failed.
func (s *Starting) hear(report progress.Func) error {
	for s.lines.Scan() {
		var n News
		if err := json.Unmarshal(s.lines.Bytes(), &n); err != nil {
			return fmt.Errorf("its supervisor can't be understood: %w", err)
		}
		switch {
		case n.Failed != nil:
			return n.Failed.Err()
		case n.Ready || n.GoesOn:
			return nil
		case n.Progress != nil:
			report.Report(*n.Progress)
		}
	}
	return errEnded
}

var errEnded = fault.Newf(fault.Unavailable, "its supervisor ended before its machine was ready").WithHint("see the file log in its folder")

// Release lets the supervisor go on by itself. Where its machine was saved, it returns when that runs for everybody; with an error it has ended, and is as it was saved.
func (s *Starting) Release() error {
	_, err := s.order.Write([]byte{'\n'})
	err = errors.Join(err, s.order.Close())
	if s.paused {
		if err == nil {
			err = s.hear(nil)
		}
		if err != nil {
			s.news.Close()
			s.cmd.Wait()
			return fault.Wrap(err, "start workspace", "")
		}
	}
	go s.cmd.Wait() // so that it is no zombie where the caller lives on
	return fault.Wrap(err, "start workspace", "")
}

// Abandon ends the supervisor, with its machine, and returns when it is gone.
func (s *Starting) Abandon() {
	s.order.Close()
	s.news.Close() // one that goes on telling must not wait for a listener
	s.cmd.Wait()
}
