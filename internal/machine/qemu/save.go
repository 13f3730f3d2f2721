package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/qemu/saved"
	"github.com/pyro-mcp/pyro/internal/machine/record"
)

var _ machine.Saver = (*instance)(nil)

// These are the files of a saved machine. In addition there is a hard link to the template's
// memory.
const (
	savedMemory  = "memory"
	savedDevices = "devices"
	savedOverlay = "overlay.qcow2"
)

// Pause stops the machine's processors.
func (in *instance) Pause(ctx context.Context) error {
	_, err := in.monitor.run(ctx, command{name: "stop"})
	return fault.Wrap(err, "pause the machine", "")
}

// Resume lets the machine's processors run again, even after Save.
func (in *instance) Resume(ctx context.Context) error {
	_, err := in.monitor.run(ctx, command{name: "cont"})
	return fault.Wrap(err, "resume the machine", "")
}

// Save reads the machine's memory from the QEMU process. It makes QEMU write the state of the
// devices.
func (in *instance) Save(ctx context.Context, dir string) error {
	return fault.Wrap(in.saveTo(ctx, dir), "save the machine", dir)
}

func (in *instance) saveTo(ctx context.Context, dir string) error {
	if err := in.layering.lock(ctx); err != nil {
		return err
	}
	defer in.layering.unlock()
	status, err := in.status(ctx)
	if err != nil {
		return err
	}
	if err = in.writeFiles(ctx, dir); err == nil {
		return nil
	}
	if after := in.recover(ctx, status.Running); after != nil {
		err = errors.Join(err, after)
	}
	for _, name := range []string{record.Name, savedMemory, savedDevices, savedOverlay, templateRAM} {
		if gone := os.Remove(filepath.Join(dir, name)); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// writeFiles writes all files of a saved machine. It writes the record last, and pauses the machine
// as late as possible.
func (in *instance) writeFiles(ctx context.Context, dir string) (err error) {
	o := in.origin
	size := int64(o.spec.MemMiB) << 20
	r := description{Key: o.key, TSCKHz: o.verdict.TSCKHz, Shape: shapeOf(o.spec), Note: o.note}
	var f opener
	defer f.close()
	memoryFile, devicesFile := f.make(filepath.Join(dir, savedMemory)), f.make(filepath.Join(dir, savedDevices))
	if f.err != nil {
		return f.err
	}
	if r.RAM, err = o.keepRAM(filepath.Join(dir, templateRAM)); err != nil {
		return err
	}
	head, err := saved.ReadHead(io.NewSectionReader(o.state, 0, math.MaxInt64), size)
	if err != nil {
		return err
	}
	base, err := saved.OpenBase(o.ram, size)
	if err != nil {
		return err
	}
	memory, err := in.memory(size)
	if err != nil {
		return err
	}
	defer memory.Close()
	// From here on neither the processors nor QEMU change the memory. All writes to the disks have
	// been flushed.
	if _, err := in.monitor.run(ctx, command{name: "stop"}); err != nil {
		return err
	}
	overlaid := make(chan error, 1)
	go func() {
		var err error
		if o.overlay != nil {
			r.Overlay, err = keepOverlay(filepath.Join(dir, savedOverlay), o.overlay)
		}
		overlaid <- err
	}()
	r.Memory, err = saved.Save(ctx, memory, base, free(o.note, memory, size), memoryFile)
	if err == nil {
		r.Devices, err = in.keepDevices(ctx, head, devicesFile)
	}
	if err == nil {
		err = memoryFile.Sync()
	}
	if failed := <-overlaid; err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	return record.Write(dir, savedForm, r)
}

// memory finds the machine's memory in the QEMU process.
func (in *instance) memory(size int64) (*saved.Memory, error) {
	m, err := saved.OpenMemory(in.process.Open, size)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fault.Newf(fault.Unavailable, "the host does not allow pyro to read the memory of its QEMU: %w", err).
			WithHint("sudo sysctl kernel.yama.ptrace_scope=1")
	}
	return m, err
}

// keepRAM creates a hard link to the file of the machine's base memory, so that the file outlives
// the template. If a hard link is impossible, it makes a copy.
func (o *origin) keepRAM(path string) (ramRecord, error) {
	r := ramRecord{Digest: o.digest}
	err := unix.Linkat(unix.AT_FDCWD, inherited(int(o.ram.Fd())), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
	if err != nil {
		if err = copyRAM(path, o.ram); err != nil {
			return r, err
		}
	}
	r.Stamp, err = disk.StampOf(path)
	return r, err
}

func copyRAM(path string, from *os.File) error {
	info, err := from.Stat()
	if err != nil {
		return err
	}
	to, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(disk.Copy(to, from), to.Chmod(info.Mode().Perm()), to.Sync(), to.Close())
}

// keepDevices reads the state of the devices from QEMU. It writes the state to the file, after the
// head.
func (in *instance) keepDevices(ctx context.Context, head saved.Head, file *os.File) (sums record.Sums, err error) {
	devices, err := in.readDevices(ctx)
	if err != nil {
		return sums, err
	}
	stream, err := saved.Devices(head, devices)
	if err != nil {
		return sums, err
	}
	if _, err = file.Write(stream); err == nil {
		err = file.Sync()
	}
	if err != nil {
		return sums, err
	}
	return record.SumsOf(file)
}

// keepOverlay copies the root layer of a machine without storage.
func keepOverlay(path string, from *os.File) (*record.Sums, error) {
	to, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer to.Close()
	if err := errors.Join(disk.Copy(to, from), to.Sync()); err != nil {
		return nil, err
	}
	sums, err := record.SumsOf(to)
	return &sums, err
}

type runStatus struct {
	Running bool   `json:"running"`
	Status  string `json:"status"`
}

func (in *instance) status(ctx context.Context) (s runStatus, err error) {
	answer, err := in.monitor.run(ctx, command{name: "query-status"})
	if err == nil {
		err = json.Unmarshal(answer, &s)
	}
	return s, err
}

// recover resumes a machine after a failed save. If the machine can't be resumed, recover ends it,
// because it would hang forever.
func (in *instance) recover(ctx context.Context, running bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), transactionTimeout)
	defer cancel()
	back := command{name: "cont"}
	if !running {
		back = command{name: "query-status"}
	}
	_, err := in.monitor.run(ctx, back)
	if err != nil && in.Err() == nil {
		in.end(fault.New(fault.Unavailable, "resume the machine after a failed save", "", "%w", err))
		in.Close()
	}
	return err
}
