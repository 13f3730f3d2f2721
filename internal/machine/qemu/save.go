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

var (
	_ machine.Saver  = (*instance)(nil)
	_ machine.Pauser = (*instance)(nil)
)

// The files of a saved machine, beside the memory that it was mapped from, which is the template's and has its name.
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

// Resume has them go on, after a Save too.
func (in *instance) Resume(ctx context.Context) error {
	_, err := in.monitor.run(ctx, command{name: "cont"})
	return fault.Wrap(err, "have the machine go on", "")
}

// Save reads the machine's memory out of QEMU's, and has QEMU tell how its devices are.
func (in *instance) Save(ctx context.Context, dir string) error {
	return fault.Wrap(in.saveTo(ctx, dir), "save the machine", dir)
}

func (in *instance) saveTo(ctx context.Context, dir string) error {
	if err := in.layering.take(ctx); err != nil {
		return err
	}
	defer in.layering.leave()
	status, err := in.status(ctx)
	if err != nil {
		return err
	}
	if err = in.writeDown(ctx, dir); err == nil {
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

// writeDown writes all that belongs to a saved machine, the record of it last. The machine stands still for as little of that as can be.
func (in *instance) writeDown(ctx context.Context, dir string) (err error) {
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
	// From then on neither its processors nor QEMU change its memory, and what it has written is flushed to its disks.
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

// memory finds the machine's memory in QEMU's.
func (in *instance) memory(size int64) (*saved.Memory, error) {
	m, err := saved.OpenMemory(in.process.Open, size)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fault.Newf(fault.Unavailable, "the host does not let pyro look into the memory of the QEMU that it started: %w", err).
			WithHint("sudo sysctl kernel.yama.ptrace_scope=1")
	}
	return m, err
}

// keepRAM gives the file that the machine's memory was mapped from another name, by which it stays whatever becomes of the template, or makes a copy where it can't
// have one.
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

// keepDevices has QEMU tell how its devices are, and writes that down as a stream with a head.
func (in *instance) keepDevices(ctx context.Context, head saved.Head, file *os.File) (sums record.Sums, err error) {
	told, err := in.tell(ctx)
	if err != nil {
		return sums, err
	}
	stream, err := saved.Devices(head, told)
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

// keepOverlay makes a copy of what a machine without storage wrote to its root.
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

// recover has a machine that could not be saved be as it was. One that can't be brought back ends: nobody could tell it from one that hangs.
func (in *instance) recover(ctx context.Context, running bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), transactionPatience)
	defer cancel()
	back := command{name: "cont"}
	if !running {
		back = command{name: "query-status"}
	}
	_, err := in.monitor.run(ctx, back)
	if err != nil && in.Err() == nil {
		in.end(fault.New(fault.Unavailable, "have the machine go on after it could not be saved", "", "%w", err))
		in.Close()
	}
	return err
}
