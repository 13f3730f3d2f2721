package main

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/lisafs"
	"gvisor.dev/gvisor/pkg/log"
	"gvisor.dev/gvisor/pkg/unet"
	"gvisor.dev/gvisor/runsc/fsgofer"

	"github.com/pyro-mcp/pyro/runsc/filter"
)

// These are the descriptors of the inherited files.
const (
	sentryFD       = 3 + iota // a stream socket to the sentry
	goferProgramFD            // this program
)

// gofer serves a folder of the host to a machine's sentry. The folder is the machine's volume. The
// sentry itself can't open files.
//
// pyro starts the gofer as PID 1 of new user, PID, mount, network, IPC and UTS namespaces, with
// CAP_SYS_ADMIN in them. The gofer drops this capability before it reads from the sentry. The
// folder becomes its root. It keeps the capabilities to set owners and modes.
//
// The parameter limit is the maximum size of all files in the folder, in bytes (usage.go). The
// parameter mark is the name of a file (incomplete.go). The parameters sharedMark and
// severalMark are names of extended attributes (shared.go). The gofer exits when the sentry or pyro
// ends.
func gofer(folder, limit, mark, sharedMark, severalMark string) error {
	bytes, err := strconv.ParseInt(limit, 10, 64)
	if err != nil || bytes <= 0 {
		return fmt.Errorf("%q is not a valid size of a volume", limit)
	}
	debug.SetGCPercent(20)  // the gofer has little data and makes little garbage
	_ = time.Local.String() // reads a file of the host, because later the path would lead into the volume
	os.WriteFile("/proc/self/comm", []byte("pyro-gofer"), 0)
	log.SetTarget(log.GoogleEmitter{Writer: &log.Writer{Next: io.Discard}})
	log.SetLevel(log.Warning)
	unix.Close(goferProgramFD)
	if err := enterFolder(folder); err != nil {
		return err
	}
	if err := keepPrivileges(unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID); err != nil {
		return err
	}
	unix.Umask(0) // the sentry has already applied the umask of the machine's process
	shared, err := newSharing(sharedMark, severalMark)
	if err != nil {
		return err
	}
	if err := filter.InstallForGofer(); err != nil {
		return err
	}
	socket, err := unet.NewSocket(sentryFD)
	if err != nil {
		return err
	}
	server := lisafs.NewServer()
	(&usage{limit: bytes, isStaged: shared.isStaged}).serve(served)
	(&incomplete{mark: mark}).serve(served)
	shared.serve(served)
	server.SetHandlers(served)
	connection, err := server.CreateConnection(socket, "/", fsgofer.ConnectionOpts(false), fsgofer.NewConnectionImpl(&fsgofer.Config{}))
	if err != nil {
		return err
	}
	server.StartConnection(connection)
	server.Wait()
	return nil
}
