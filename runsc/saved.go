package main

import (
	"os"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/sentry/state/checkpointfiles"
	"gvisor.dev/gvisor/pkg/sentry/state/stateio"
	"gvisor.dev/gvisor/pkg/sentry/state/stateipc"
	"gvisor.dev/gvisor/pkg/unet"
	"gvisor.dev/gvisor/pkg/urpc"
	"gvisor.dev/gvisor/runsc/boot"
)

// savedState is what a machine goes on from, for gVisor. Its pages are read while it runs already: one that it needs before is read first.
//
// It is read through gVisor's interface for files that are elsewhere, with this process at the other end too. From a file by itself gVisor would read pages in 128
// threads, which keep the machine, that needs few of them, from its start.
func savedState() (*boot.RestoreOpts, error) {
	files, err := stateipc.NewAsyncFileServer(savedFiles{})
	if err != nil {
		return nil, err
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	socket, err := unet.NewSocket(ends[0])
	if err != nil {
		return nil, err
	}
	server := urpc.NewServer()
	server.Register(files)
	server.StartHandling(socket)
	return &boot.RestoreOpts{
		FilePayload: urpc.FilePayload{Files: []*os.File{os.NewFile(uintptr(ends[1]), "saved")}}, UseCheckpointGofer: true, Background: true,
	}, nil
}

// savedFiles are the files that a machine goes on from, by the names that gVisor has for them.
type savedFiles struct{}

func (savedFiles) Destroy() {}

func (savedFiles) OpenRead(name string) (stateio.AsyncReader, error) {
	const atOnce = 64 << 10 // who waits for a page waits for so much before it
	for i, known := range []string{checkpointfiles.StateFileName, checkpointfiles.PagesMetadataFileName, checkpointfiles.PagesFileName} {
		if name == known {
			return stateio.NewFDReader(int32(stateFD+i), atOnce, atOnce/hostarch.PageSize, 1), nil
		}
	}
	return nil, os.ErrNotExist
}

func (savedFiles) OpenWrite(string) (stateio.AsyncWriter, error) { return nil, os.ErrPermission }
