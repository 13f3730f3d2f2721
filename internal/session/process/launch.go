package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/socket"
)

// startConfig is the message that the session process sends to the launcher.
type startConfig struct {
	Environment []string `json:"environment"`
}

// drainTime is the time from the end of the program to the end of the pane. When the pane ends,
// tmux drops output that it has not read.
const drainTime = 50 * time.Millisecond

// launch runs the launcher, the process that tmux starts in a pane. The launcher receives its
// startConfig and runs the program in the launcher's own process group. It exits with the program's
// exit status.
func launch(folder session.Folder) error {
	raw, err := socket.Dial(string(folder), launchSocket)
	if err != nil {
		return err
	}
	c := session.NewConn(raw)
	defer c.Close()
	if !socket.Allowed(raw) {
		return errors.New("the socket is another user's")
	}
	var o startConfig
	if err := c.Receive(&o); err != nil {
		return err
	}
	outlive(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGTTIN, unix.SIGTTOU, unix.SIGTSTP, unix.SIGPIPE)
	cmd, err := launched(folder, o.Environment)
	if err != nil {
		c.Send(fault.ReportOf(fault.Newf(fault.Precondition, "can't start the program: %w", err)))
		return err
	}
	c.Close()
	cmd.Wait()
	if state, _, err := folder.State(); err == nil && state.Ending {
		reapAll()
	}
	time.Sleep(drainTime)
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		unix.Exec(cmd.Path, []string{"bash", "-c", fmt.Sprintf("ulimit -c 0; kill -%d $$", status.Signal())}, nil)
	}
	os.Exit(cmd.ProcessState.ExitCode())
	return nil
}

// reapAll waits until all programs of the session have ended. When the launcher exits, the terminal
// hangs up, which would interrupt the EXIT traps of these programs.
func reapAll() {
	for {
		if _, err := unix.Wait4(-1, nil, 0, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// launched starts the program on the pane's terminal.
func launched(folder session.Folder, environment []string) (*exec.Cmd, error) {
	spec, err := folder.Spec()
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlSetWinsize(0, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(spec.Cols), Row: uint16(spec.Rows)}); err != nil {
		return nil, os.NewSyscallError("ioctl", err)
	}
	// With a subreaper, background programs remain descendants of the launcher.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	cmd := exec.Command("bash", "-lc", spec.Command)
	cmd.Dir, cmd.Env = spec.Cwd, environment
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd, cmd.Start()
}
