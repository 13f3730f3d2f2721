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

// devicesSet is the number of the descriptor set to which QEMU writes the state of its devices. It
// is higher than the sets that QEMU inherits, and lower than the sets of added layers.
const devicesSet = firstAddedSet

// devices is a file in memory. QEMU writes the state of a machine's devices to it.
type devices struct {
	read  *os.File
	write *os.File // QEMU's descriptor shares the file position with this one
}

func (d *devices) close() {
	d.read.Close()
	d.write.Close()
}

// openDevices creates the file if it does not exist yet.
func (in *instance) openDevices(ctx context.Context) error {
	if in.devices != nil {
		return nil
	}
	fd, err := unix.MemfdCreate("devices", unix.MFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("memfd_create", err)
	}
	read := os.NewFile(uintptr(fd), "devices")
	// QEMU rejects descriptors that are also readable.
	write, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(fd), os.O_WRONLY, 0)
	if err != nil {
		read.Close()
		return err
	}
	d := &devices{read, write}
	if err := in.monitor.sendFileToSet(ctx, devicesSet, write); err != nil {
		d.close()
		return err
	}
	in.devices = d
	in.onEnd(d.close)
	return nil
}

// readDevices makes QEMU write the state of a paused machine's devices, and returns that state.
func (in *instance) readDevices(ctx context.Context) ([]byte, error) {
	if err := in.openDevices(ctx); err != nil {
		return nil, err
	}
	d := in.devices
	if _, err := d.write.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	if err := d.write.Truncate(0); err != nil { // QEMU 5.0 and later truncate the file themselves
		return nil, err
	}
	if _, err := in.monitor.run(ctx, command{"xen-save-devices-state", map[string]any{"filename": setPath(devicesSet), "live": false}}); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.NewSectionReader(d.read, 0, saved.MaxDevices+1))
	if len(b) > saved.MaxDevices {
		err = errors.New("QEMU's list of devices is too long")
	}
	return b, err
}
