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

// savedStreams is the number of streams to which a machine is saved. They are the state of the
// kernel, the positions of the memory pages, and the pages that are neither free nor zero. pyro
// writes the streams to files. gVisor's own interface would give the files to the sentry, and a
// hostile sentry could change them later.
const savedStreams = 3

// Limits of the writes of pages: the bytes and the pieces in one write, and the number of writes
// that wait.
const (
	pagesAtOnce  = 1 << 20
	piecesAtOnce = 256
	pagesWaiting = 8
)

// kernelOf returns a machine's current kernel. A restore replaces the kernel. gVisor's loader does
// not export this field.
func kernelOf(l *boot.Loader) *kernel.Kernel { return (*kernel.Kernel)(unexportedField(l, "k")) }

func watchdogOf(l *boot.Loader) *watchdog.Watchdog {
	return (*watchdog.Watchdog)(unexportedField(l, "watchdog"))
}

// unexportedField returns the value of a pointer field in the loader.
func unexportedField(l *boot.Loader, field string) unsafe.Pointer {
	return reflect.ValueOf(l).Elem().FieldByName(field).UnsafePointer()
}

// save writes the machine to the streams and closes them. If the machine was paused before, it is
// paused afterwards.
func save(l *boot.Loader, streams []*os.File) error {
	if len(streams) != savedStreams {
		return errors.New("a save needs three streams")
	}
	specs, err := specutils.ConvertSpecsToString(l.GetContainerSpecs())
	if err != nil {
		return err
	}
	to := make([]stream, savedStreams)
	for i, f := range streams {
		to[i] = stream{f}
		defer to[i].Close() // usually gVisor has already closed them
	}
	k := kernelOf(l)
	options := &state.SaveOpts{
		Destination: to[0], PagesMetadata: stateio.NewBufioWriteCloser(to[1]),
		PagesFile:                      stateio.NewIOWriter(to[2], pagesAtOnce, piecesAtOnce, pagesWaiting),
		AppMFExcludeCommittedZeroPages: true,
		Resume:                         true,
		// gVisor's restore needs this metadata.
		Metadata: map[string]string{"compression": "none", boot.ContainerCountKey: "1", boot.VersionKey: version.Version(), boot.ContainerSpecsKey: specs},
	}
	defer options.Close()
	err = (&control.State{Kernel: k, Watchdog: watchdogOf(l)}).SaveWithOpts(options, &control.SaveRestoreExecOpts{})
	k.OnCheckpointAttempt(err)
	return err
}

// stream is a socket to pyro. Close also shuts down the socket, because a child process might have
// a copy of the descriptor.
type stream struct{ *os.File }

func (s stream) Close() error {
	socket, err := s.SyscallConn()
	if err != nil {
		return err
	}
	var ended error
	if err := socket.Control(func(fd uintptr) { ended = os.NewSyscallError("shutdown", unix.Shutdown(int(fd), unix.SHUT_WR)) }); err != nil {
		return err // already closed
	}
	return errors.Join(ended, s.File.Close())
}
