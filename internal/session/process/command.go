package process

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/session"
)

// Main is the session process of the session in a folder. It returns when the session has ended.
// SIGTERM ends the session. Main reports its start on out, as a session.Started.
//
// If argument is a path below that folder, Main does one of these tasks instead:
//
//   - It starts the program in a tmux pane.
//   - It writes the log of a tmux pane.
//   - It ends the program of a lost session in a workspace.
//
// If machines is nil and the session is in a workspace, Main replaces this process with the pyro
// command.
func Main(argument string, out io.WriteCloser, machines Workspaces) error {
	program.CatchIgnored()
	debug.SetGCPercent(40)
	runtime.GOMAXPROCS(1) // passing work between threads takes longer than the work
	folder := session.Folder(argument)
	within, name := filepath.Split(argument)
	switch parent := session.Folder(filepath.Clean(within)); name {
	case launchSocket:
		return launch(parent)
	case string(session.Output):
		return writeLog(parent, os.Stdin)
	case session.EndInWorkspace:
		folder = parent
	}
	reports := json.NewEncoder(out)
	failed := func(err error) error {
		report := fault.ReportOf(err)
		reports.Encode(session.Started{Failed: &report})
		slog.Error("keep session", "folder", folder, "error", err)
		return err
	}
	spec, err := folder.Spec()
	if err != nil {
		return failed(err)
	}
	if spec.Backend == session.Workspace && machines == nil {
		return failed(continueAsPyro(argument))
	}
	if name == session.EndInWorkspace {
		return machines.End(context.Background(), spec)
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	outlive(unix.SIGHUP, unix.SIGINT, unix.SIGPIPE)
	begun := false
	err = Run(ctx, folder, machines, func() {
		begun = true
		reports.Encode(session.Started{})
		out.Close()
	})
	if err != nil && !begun {
		return failed(err)
	}
	if err != nil {
		slog.Error("keep session", "folder", folder, "error", err)
	}
	return err
}

// outlive catches signals and does nothing with them. It does not ignore them, because programs
// that this process starts would inherit that.
func outlive(signals ...os.Signal) { signal.Notify(make(chan os.Signal, 1), signals...) }
