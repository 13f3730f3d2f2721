package keeper

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

// order is what a launcher is told.
type order struct {
	Environment []string `json:"environment"`
}

// settle is how long a pane goes on after its program: tmux drops what the kernel has not handed to it by then.
const settle = 50 * time.Millisecond

// launch is a launcher: what tmux starts in a pane. It waits for its order, runs the program of the session in its own process group, and ends as that ended.
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
	var o order
	if err := c.Receive(&o); err != nil {
		return err
	}
	outlive(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGTTIN, unix.SIGTTOU, unix.SIGTSTP, unix.SIGPIPE)
	cmd, err := launched(folder, o.Environment)
	if err != nil {
		c.Send(fault.ReportOf(fault.Newf(fault.Precondition, "it can't be started: %w", err)))
		return err
	}
	c.Close()
	cmd.Wait()
	time.Sleep(settle)
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		unix.Exec(cmd.Path, []string{"bash", "-c", fmt.Sprintf("ulimit -c 0; kill -%d $$", status.Signal())}, nil)
	}
	os.Exit(cmd.ProcessState.ExitCode())
	return nil
}

// launched starts the program of a session on the terminal of the pane.
func launched(folder session.Folder, environment []string) (*exec.Cmd, error) {
	spec, err := folder.Spec()
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlSetWinsize(0, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(spec.Cols), Row: uint16(spec.Rows)}); err != nil {
		return nil, os.NewSyscallError("ioctl", err)
	}
	// What it leaves in the background stays below this process.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	cmd := exec.Command("bash", "-lc", spec.Command)
	cmd.Dir, cmd.Env = spec.Cwd, environment
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd, cmd.Start()
}
