package main

import (
	"errors"
	"os"
	"reflect"
	"unsafe"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/sentry/control"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/state"
	"gvisor.dev/gvisor/pkg/sentry/state/stateio"
	"gvisor.dev/gvisor/pkg/sentry/watchdog"
	"gvisor.dev/gvisor/runsc/boot"
	"gvisor.dev/gvisor/runsc/specutils"
	"gvisor.dev/gvisor/runsc/version"
)

// A machine is saved as three streams, to an owner who writes them down: its kernel's state, where each page of its memory belongs, and the pages, of which those
// that are free or zero are left out. gVisor's own interface takes files for that, which the sentry could change later.
const savedStreams = 3

// How much of the pages is written at once, in how many pieces, and how many writes may wait.
const (
	pagesAtOnce  = 1 << 20
	piecesAtOnce = 256
	pagesWaiting = 8
)

// kernelOf gives a machine's kernel, which a restore replaces. gVisor's loader keeps it to itself.
func kernelOf(l *boot.Loader) *kernel.Kernel { return (*kernel.Kernel)(kept(l, "k")) }

func watchdogOf(l *boot.Loader) *watchdog.Watchdog { return (*watchdog.Watchdog)(kept(l, "watchdog")) }

func kept(l *boot.Loader, field string) unsafe.Pointer {
	return reflect.ValueOf(l).Elem().FieldByName(field).UnsafePointer()
}

// save writes the machine to its owner, and closes the streams. It stands still when it has been paused, else it goes on.
func save(l *boot.Loader, streams []*os.File) error {
	if len(streams) != savedStreams {
		return errors.New("it takes three streams to save a machine")
	}
	specs, err := specutils.ConvertSpecsToString(l.GetContainerSpecs())
	if err != nil {
		return err
	}
	to := make([]stream, savedStreams)
	for i, f := range streams {
		to[i] = stream{f}
		defer to[i].Close() // gVisor closes them too, but not always
	}
	k := kernelOf(l)
	options := &state.SaveOpts{
		Destination: to[0], PagesMetadata: stateio.NewBufioWriteCloser(to[1]),
		PagesFile:                      stateio.NewIOWriter(to[2], pagesAtOnce, piecesAtOnce, pagesWaiting),
		AppMFExcludeCommittedZeroPages: true,
		Resume:                         true,
		// What gVisor's restore asks for.
		Metadata: map[string]string{"compression": "none", boot.ContainerCountKey: "1", boot.VersionKey: version.Version(), boot.ContainerSpecsKey: specs},
	}
	defer options.Close()
	err = (&control.State{Kernel: k, Watchdog: watchdogOf(l)}).SaveWithOpts(options, &control.SaveRestoreExecOpts{})
	k.OnCheckpointAttempt(err)
	return err
}

// stream is a socket to the owner whose end is told when it is closed. What has been forked meanwhile may have it too: closing it alone would not tell.
type stream struct{ *os.File }

func (s stream) Close() error {
	socket, err := s.SyscallConn()
	if err != nil {
		return err
	}
	var ended error
	if err := socket.Control(func(fd uintptr) { ended = os.NewSyscallError("shutdown", unix.Shutdown(int(fd), unix.SHUT_WR)) }); err != nil {
		return err // it has been closed
	}
	return errors.Join(ended, s.File.Close())
}
