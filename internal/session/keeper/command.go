package keeper

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
	"github.com/pyro-mcp/pyro/internal/session"
)

// Main is a keeper as a process: of the session in a folder, until that ends or it is told to by a signal. It tells on out how it began. For the sake of sessions in
// tmux it is a launcher where it is called with the path of the socket for that in such a folder, and a relay with the path of its log.
func Main(folder string, out io.WriteCloser) error {
	debug.SetGCPercent(40)
	runtime.GOMAXPROCS(1) // to hand work from thread to thread takes longer than the work
	switch within, name := filepath.Split(folder); name {
	case launchSocket:
		return launch(session.Folder(filepath.Clean(within)))
	case string(session.Output):
		return relay(session.Folder(filepath.Clean(within)), os.Stdin)
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	outlive(unix.SIGHUP, unix.SIGINT, unix.SIGPIPE)
	tell := json.NewEncoder(out)
	begun := false
	err := Run(ctx, session.Folder(folder), func() {
		begun = true
		tell.Encode(session.Begun{})
		out.Close()
	})
	if err != nil && !begun {
		report := fault.ReportOf(err)
		tell.Encode(session.Begun{Failed: &report})
	}
	if err != nil {
		slog.Error("keep session", "folder", folder, "error", err)
	}
	return err
}

// outlive has signals do nothing to this process. To ignore them would have the programs that it starts ignore them too.
func outlive(signals ...os.Signal) { signal.Notify(make(chan os.Signal, 1), signals...) }
