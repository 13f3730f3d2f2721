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
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// StartMessage is a message from a starting supervisor to the process that started it.
type StartMessage struct {
	Progress *progress.Event `json:"progress,omitempty"`
	Failed   *fault.Wire     `json:"failed,omitempty"`
	Ready    bool            `json:"ready,omitempty"`
	Resumed  bool            `json:"goes_on,omitempty"` // the saved machine has been resumed and now runs
}

// maxStartMessage is the largest size of a message, in bytes.
const maxStartMessage = 1 << 20

// Command is the pyro command that runs a supervisor. The supervisor reads its configuration from
// standard input and reports on standard output.
const Command = "supervise"

// supervisorEnv limits the memory of the supervisor. The supervisor runs as long as its machine and
// has little to do.
var supervisorEnv = []string{"GOGC=40", "GOMEMLIMIT=32MiB"}

// inherited returns the environment variables that a supervisor inherits, mostly those with paths.
// Other variables might contain secrets. They would stay in the supervisor as long as its machine
// runs. Under host_compat they would reach every command.
func inherited() (env []string) {
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

// Starting is a supervisor that has started its machine and waits until its starter acknowledges
// the start.
type Starting struct {
	config   io.WriteCloser
	messages io.Closer
	lines    *bufio.Scanner // the messages
	cmd      *exec.Cmd
	paused   bool // whether the machine was saved
}

// Start starts a supervisor, and returns when the supervisor serves its machine. The caller must
// then call Release, so that the supervisor runs on its own, or Abandon. The supervisor is a child
// process of the caller, but the caller does not need to wait for it.
func Start(ctx context.Context, program string, o StartConfig, report progress.Func) (*Starting, error) {
	s, err := start(ctx, program, o, report)
	return s, fault.Wrap(err, "start workspace", o.Workspace.ID)
}

func start(ctx context.Context, program string, o StartConfig, report progress.Func) (*Starting, error) {
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
	cmd.Env = append(inherited(), supervisorEnv...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	config, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	messages, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fault.Newf(fault.Unavailable, "its supervisor can't be started: %w", err)
	}
	s := &Starting{config, messages, bufio.NewScanner(messages), cmd, o.Workspace.Disks.Checkpoint != ""}
	s.lines.Buffer(make([]byte, 0, 4<<10), maxStartMessage)
	// If the supervisor ended before it read its configuration, its messages say why.
	if _, err = config.Write(append(text, '\n')); err == nil || errors.Is(err, syscall.EPIPE) {
		err = s.await(ctx, report)
	}
	if err != nil {
		s.Abandon()
		return nil, err
	}
	return s, nil
}

// await forwards progress messages until the supervisor is ready or has failed, or ctx is
// cancelled.
func (s *Starting) await(ctx context.Context, report progress.Func) error {
	stop := context.AfterFunc(ctx, func() { s.config.Close(); s.cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	err := s.hear(report)
	if errors.Is(err, errEnded) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// hear forwards progress messages until the supervisor is ready, has resumed its machine, or has
// failed.
func (s *Starting) hear(report progress.Func) error {
	for s.lines.Scan() {
		var n StartMessage
		if err := json.Unmarshal(s.lines.Bytes(), &n); err != nil {
			return fmt.Errorf("its supervisor sent an invalid message: %w", err)
		}
		switch {
		case n.Failed != nil:
			return n.Failed.Err()
		case n.Ready || n.Resumed:
			return nil
		case n.Progress != nil:
			report.Report(*n.Progress)
		}
	}
	return errEnded
}

var errEnded = fault.Newf(fault.Unavailable, "its supervisor ended before its machine was ready").WithHint("see the file log in its folder")

// releasePatience is how long a supervisor can take to resume a saved machine. The supervisor has a
// shorter limit, so Release kills only a supervisor that hangs.
const releasePatience = 2 * time.Minute

// Release acknowledges the start, so that the supervisor runs on its own. If its machine was saved,
// Release returns when the machine runs. If Release then fails, the supervisor has ended and the
// machine stays saved. Release has no context, because a supervisor that is killed meanwhile can
// lose the saved machine.
func (s *Starting) Release() error {
	_, err := s.config.Write([]byte{'\n'})
	err = errors.Join(err, s.config.Close())
	if s.paused {
		defer time.AfterFunc(releasePatience, func() { s.cmd.Process.Kill() }).Stop()
		if err == nil {
			err = s.hear(nil)
		}
		if err != nil {
			s.messages.Close()
			s.cmd.Wait()
			return fault.Wrap(err, "start workspace", "")
		}
	}
	go s.cmd.Wait() // the supervisor must not remain as a zombie
	return fault.Wrap(err, "start workspace", "")
}

// Abandon ends the supervisor and its machine, and returns when both have ended.
func (s *Starting) Abandon() {
	s.config.Close()
	s.messages.Close() // messages are no longer read
	s.cmd.Wait()
}
