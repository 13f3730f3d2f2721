package keeper

import (
	"errors"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/socket"
)

// order is what a launcher is told.
type order struct {
	Environment []string `json:"environment"`
}

// launch is a launcher: what tmux starts in a pane. It waits for its order and becomes the program of the session.
func launch(folder session.Folder) error {
	raw, err := socket.Dial(string(folder), launchSocket)
	if err != nil {
		return err
	}
	c := session.NewConn(raw)
	if !socket.Allowed(raw) {
		return errors.New("the socket is another user's")
	}
	var o order
	if err := c.Receive(&o); err != nil {
		return err
	}
	spec, err := folder.Spec()
	if err == nil {
		err = become(spec, o.Environment)
	}
	c.Send(fault.ReportOf(fault.New(fault.Precondition, "", "", "it can't be started: %w", err)))
	return err
}

// become is the program of a session from here on, in place of this one.
func become(spec session.Spec, environment []string) error {
	if err := unix.IoctlSetWinsize(0, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(spec.Cols), Row: uint16(spec.Rows)}); err != nil {
		return os.NewSyscallError("ioctl", err)
	}
	outlive(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTTIN, unix.SIGTTOU) // which tmux, or whoever started it, may ignore: the program does not
	// What it leaves in the background stays below it, as long as it runs.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	if err := os.Chdir(spec.Cwd); err != nil {
		return err
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		return err
	}
	return os.NewSyscallError("execve", unix.Exec(bash, []string{"bash", "-lc", spec.Command}, environment))
}
