package qemu

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/machine/qemu/saved"
)

// devicesSet is QEMU's set of descriptors for the file into which it tells how its devices are. It is above all sets that a QEMU inherits, and below those of added layers.
const devicesSet = firstAddedSet

// devices is a file in memory into which QEMU tells how the devices of a machine are.
type devices struct {
	read  *os.File
	write *os.File // as QEMU has it: the place that is written to is the same for both
}

func (d *devices) close() {
	d.read.Close()
	d.write.Close()
}

// tellable makes the file, once.
func (in *instance) tellable(ctx context.Context) error {
	if in.devices != nil {
		return nil
	}
	fd, err := unix.MemfdCreate("devices", unix.MFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("memfd_create", err)
	}
	read := os.NewFile(uintptr(fd), "devices")
	write, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(fd), os.O_WRONLY, 0) // QEMU takes no file that can be read too
	if err != nil {
		read.Close()
		return err
	}
	d := &devices{read, write}
	if err := in.monitor.giveTo(ctx, devicesSet, write); err != nil {
		d.close()
		return err
	}
	in.devices = d
	in.onEnd(d.close)
	return nil
}

// tell has QEMU tell how the devices of a machine are that stands still.
func (in *instance) tell(ctx context.Context) ([]byte, error) {
	if err := in.tellable(ctx); err != nil {
		return nil, err
	}
	d := in.devices
	if _, err := d.write.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	if err := d.write.Truncate(0); err != nil { // which QEMU does by itself from 5.0 on
		return nil, err
	}
	if _, err := in.monitor.run(ctx, command{"xen-save-devices-state", map[string]any{"filename": setPath(devicesSet), "live": false}}); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.NewSectionReader(d.read, 0, saved.MaxDevices+1))
	if len(b) > saved.MaxDevices {
		err = errors.New("QEMU tells too much of its devices")
	}
	return b, err
}
