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
	goferfilter "gvisor.dev/gvisor/runsc/fsgofer/filter"

	"github.com/pyro-mcp/pyro/runsc/filter"
)

// The files that a gofer inherits from its owner, by number.
const (
	sentryFD       = 3 + iota // a stream socket to the sentry
	goferProgramFD            // this program, by which it was started
)

// gofer serves a folder of the host to the sentry of one machine, as its volume: every file operation that the sentry can't do itself, which can open
// nothing. The owner has started it as PID 1 of new user, PID, mount, network, IPC and UTS namespaces, with CAP_SYS_ADMIN in them, which it gives up before it
// hears anything of the sentry. What is left to it are the folder, as its whole root, and the capabilities to give files any owner and mode.
//
// limit is how many bytes the files in the folder may take (usage.go).
//
// It ends with the sentry, or with its owner.
func gofer(folder, limit string) error {
	bytes, err := strconv.ParseInt(limit, 10, 64)
	if err != nil || bytes <= 0 {
		return fmt.Errorf("%q is no size of a volume", limit)
	}
	debug.SetGCPercent(20)  // it keeps little, and what it does makes little garbage
	_ = time.Local.String() // reads a file, and must not find one in the volume
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
	unix.Umask(0) // the sentry has applied that of the process
	filter.RegisterForGofer()
	if err := goferfilter.Install(goferfilter.Options{LisafsNeeded: true}); err != nil {
		return err
	}
	socket, err := unet.NewSocket(sentryFD)
	if err != nil {
		return err
	}
	server := lisafs.NewServer()
	(&usage{limit: bytes}).serve(served)
	server.SetHandlers(served)
	connection, err := server.CreateConnection(socket, "/", fsgofer.ConnectionOpts(false), fsgofer.NewConnectionImpl(&fsgofer.Config{}))
	if err != nil {
		return err
	}
	server.StartConnection(connection)
	server.Wait()
	return nil
}
