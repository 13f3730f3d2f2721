package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

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
	savedOverlay = "overlay.qcow2"
)

// While a machine is saved it runs on, where what it changes meanwhile is known for certain (tracked), until what is left of its memory takes at most stillAim to write, by what QEMU expects. One that writes too fast for that
// is made to stand still once its memory has been sent maxPasses times, or after sendPatience.
const (
	stillAim     = 20 * time.Millisecond
	maxPasses    = 3
	sendPatience = 5 * time.Second
)

// sending has QEMU send as fast as it can, with time to stand still in the end.
func sending(still time.Duration) command {
	return command{"migrate-set-parameters", map[string]any{"max-bandwidth": int64(1) << 40, "downtime-limit": still.Milliseconds()}}
}

// maxStill is the longest that QEMU can be given.
const maxStill = 2000 * time.Second

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

// Save has QEMU send the machine to pyro, which writes it down.
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
	if status.Status == "postmigrate" {
		return fault.New(fault.Precondition, "", "", "it has been saved, and has not gone on since")
	}
	if err = in.writeDown(ctx, dir); err == nil {
		return nil
	}
	if after := in.recover(ctx, status.Running); after != nil {
		err = errors.Join(err, after)
	}
	for _, name := range []string{record.Name, savedMemory, savedOverlay, templateRAM} {
		if gone := os.Remove(filepath.Join(dir, name)); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// writeDown writes all that belongs to a saved machine, the record of it last.
func (in *instance) writeDown(ctx context.Context, dir string) error {
	o := in.origin
	r := description{Key: o.key, TSCKHz: o.verdict.TSCKHz, Shape: shapeOf(o.spec)}
	file, err := os.OpenFile(filepath.Join(dir, savedMemory), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if r.RAM, err = o.keepRAM(filepath.Join(dir, templateRAM)); err != nil {
		return err
	}
	if r.Memory, err = in.send(ctx, file); err != nil {
		return err
	}
	if o.overlay != nil {
		if r.Overlay, err = keepOverlay(filepath.Join(dir, savedOverlay), o.overlay); err != nil {
			return err
		}
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	return record.Write(dir, savedForm, r)
}

// keepRAM gives the file that the machine's memory was mapped from another name, by which it stays whatever becomes of the template, or makes a copy where it can't
// have one.
func (o *origin) keepRAM(path string) (ramRecord, error) {
	r := ramRecord{Digest: o.digest}
	linked := o.templates.Linking(o.key, func() error {
		return unix.Linkat(unix.AT_FDCWD, inherited(int(o.ram.Fd())), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
	})
	var err error
	if linked != nil {
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

// pipeSize is how much QEMU can be ahead of pyro.
const pipeSize = 1 << 20

// send has QEMU send the machine, and writes it to file. The machine stands still then.
func (in *instance) send(ctx context.Context, file *os.File) (record.Sums, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return record.Sums{}, err
	}
	defer read.Close()
	unix.FcntlInt(write.Fd(), unix.F_SETPIPE_SZ, pipeSize) // without, it takes a little longer
	err = in.monitor.give(ctx, "saved", write)
	write.Close()
	if err != nil {
		return record.Sums{}, err
	}
	select {
	case <-in.passed: // of an earlier one
	default:
	}
	commands := []command{ignoreNothing, sending(stillAim), {"migrate", map[string]string{"uri": "fd:saved"}}}
	if !in.origin.tracked() {
		commands = append([]command{{name: "stop"}}, commands...)
	}
	if _, err := in.monitor.run(ctx, commands...); err != nil {
		in.monitor.send(command{"closefd", map[string]string{"fdname": "saved"}})
		return record.Sums{}, err
	}
	type result struct {
		sums record.Sums
		err  error
	}
	received := make(chan result, 1)
	go func() {
		sums, err := saved.Receive(read, in.origin.ram, int64(in.origin.spec.MemMiB)<<20, file)
		received <- result{sums, err}
	}()
	late := time.NewTimer(sendPatience)
	defer late.Stop()
	for {
		select {
		case r := <-received:
			if r.err != nil {
				return record.Sums{}, r.err
			}
			return r.sums, in.sent(ctx)
		case <-late.C:
			in.monitor.send(sending(maxStill))
		case <-in.passed:
			in.monitor.send(sending(maxStill))
		case <-ctx.Done():
			read.Close()
			<-received
			return record.Sums{}, context.Cause(ctx)
		}
	}
}

// tracked tells whether all is known that a machine changes while it is sent. An emulated processor notes first that it will write to a page, and writes then: what QEMU reads in
// between is old, and is not sent again. So such a machine stands still from the beginning.
func (o *origin) tracked() bool { return o.accel == machine.KVM }

// sent tells whether QEMU, too, thinks that it has sent all.
func (in *instance) sent(ctx context.Context) error {
	info, err := in.migration(ctx)
	switch {
	case err != nil:
		return err
	case info.Status != "completed":
		return fmt.Errorf("QEMU could not save the machine: %s %s", info.Status, info.Error)
	}
	return nil
}

// migrationInfo is what QEMU says of what it sends or has sent, in an event or when it is asked.
type migrationInfo struct {
	Status   string `json:"status"`
	Pass     int    `json:"pass"`
	Error    string `json:"error-desc"`
	Downtime int    `json:"downtime"`
}

func migrationEvent(data json.RawMessage) (info migrationInfo) {
	json.Unmarshal(data, &info)
	return info
}

func (in *instance) migration(ctx context.Context) (info migrationInfo, err error) {
	answer, err := in.monitor.run(ctx, command{name: "query-migrate"})
	if err == nil {
		err = json.Unmarshal(answer, &info)
	}
	return info, err
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

// recover has a machine that could not be saved be as it was. QEMU goes on by itself where it could not send all; where it could, it is told to. A machine that can't be
// brought back ends: nobody could tell it from one that hangs.
func (in *instance) recover(ctx context.Context, running bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), transactionPatience)
	defer cancel()
	err := in.tryRecover(ctx, running)
	if err != nil && in.Err() == nil {
		in.end(fault.New(fault.Unavailable, "have the machine go on after it could not be saved", "", "%w", err))
		in.Close()
	}
	return err
}

func (in *instance) tryRecover(ctx context.Context, running bool) error {
	cancelled := false
	for {
		info, err := in.migration(ctx)
		if err != nil {
			return err
		}
		switch info.Status {
		case "", "none", "completed", "failed", "cancelled":
			if !running {
				return nil
			}
			status, err := in.status(ctx)
			if err != nil || status.Running {
				return err
			}
			// It is refused for the moment in which QEMU does the same.
			if _, err := in.monitor.run(ctx, command{name: "cont"}); err == nil {
				return nil
			}
		default:
			if !cancelled {
				in.monitor.send(command{name: "migrate_cancel"})
				cancelled = true
			}
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-in.done:
			return in.Err()
		case <-ctx.Done():
			return errors.New("QEMU does not answer")
		}
	}
}
