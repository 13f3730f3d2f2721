package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/disk/qcow2"
	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/program"
)

// These are the files of a template. Restored machines map the memory copy-on-write. The note is
// the kernel's description of its memory layout, and can be empty. The other files are the state of
// QEMU's devices and the changes to the root disk.
const (
	templateRAM     = "ram"
	templateNote    = "vmcoreinfo"
	templateState   = "state"
	templateOverlay = "overlay.qcow2"
)

// templateForm is the version of the template format. Change it when the content changes.
const templateForm = "qemu-5"

// templateMAC is the MAC address of a template's network interface.
var templateMAC = net.HardwareAddr{2, 0x70, 0x79, 0x72, 0x6f, 2}

// bootTimeout is the maximum duration of a boot. It is long enough for emulation on a slow host.
const bootTimeout = 2 * time.Minute

// maxBoots is the maximum number of boots for a template. On a busy host, every second boot can
// measure a wrong frequency for the machine's timer.
const maxBoots = 10

// timerWrong begins the line that the guest's first program prints after such a boot.
const timerWrong = "pyro-init: wrong timer"

// errTimerWrong means that the machine measured a wrong frequency for its timer.
var errTimerWrong = errors.New("the host was too busy: the machine's kernel has measured a wrong frequency for its timer")

// warmUp is a script that runs in a machine before the template is saved. It loads files that most
// commands need into the machine's memory. It can't fail.
const warmUp = `ls / >/dev/null 2>&1; command -v python3 >/dev/null && python3 -c 'import os, re, json'; command -v git >/dev/null && git --version >/dev/null; :`

// build creates a template in dir, which is empty.
func (d *Driver) build(ctx context.Context, p parts, v verdict, spec machine.Spec, dir string) error {
	for boots := 1; ; boots++ {
		err := d.buildOnce(ctx, p, v, spec, dir)
		if !errors.Is(err, errTimerWrong) || boots == maxBoots {
			return err
		}
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
			return err
		}
	}
}

// buildOnce boots a machine whose memory is a file, waits for the machine's agent, runs warmUp, and
// saves the state of the devices.
func (d *Driver) buildOnce(ctx context.Context, p parts, v verdict, spec machine.Spec, dir string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, bootTimeout, errors.New("the machine was not ready in time"))
	defer cancel()
	bare := bare(spec)
	var f opener
	defer f.close()
	var root []layer
	if !bare {
		if err := blankOverlay(filepath.Join(dir, templateOverlay)); err != nil {
			return err
		}
		root = []layer{{file: f.open(spec.Root.Image, os.O_RDONLY), raw: true}, {file: f.open(filepath.Join(dir, templateOverlay), os.O_RDWR)}}
	}
	ram := f.create(filepath.Join(dir, templateRAM), int64(spec.MemMiB)<<20)
	state := f.create(filepath.Join(dir, templateState), 0)
	kernel := f.open(p.kernel.Path, os.O_RDONLY)
	initramfs := f.open(p.initramfs.Path, os.O_RDONLY)
	if f.err != nil {
		return f.err
	}
	var far *os.File
	if spec.Network != nil { // the other end of the link discards all frames
		near, end, err := machine.NewLink()
		if err != nil {
			return err
		}
		defer near.Close()
		defer end.Close()
		go io.Copy(io.Discard, near) // the copy ends when the machine ends
		far = end
	}
	in, err := start(d.cfg.Isolation, p.binary.Path, spec.ID, dir, func(w *wiring) []string {
		args := shape(d.cfg.Isolation, spec.VCPUs, spec.MemMiB, far != nil)
		if far != nil {
			args = append(args, linked(w.add(far))...)
		}
		args = append(args, memory(w.add(ram), spec.MemMiB, true, false)...)
		if bare {
			args = append(args, noDisk(rootDisk)...)
		} else {
			args = append(args, layered(w, rootDisk, root...)...)
		}
		args = append(args, noDisk(volumeDisk)...)
		return append(args, boot(w.add(kernel), w.add(initramfs), kernelLine(d.cfg.Isolation, v.TSCKHz, bare))...)
	})
	if err != nil {
		return err
	}
	defer in.Close()
	spec.Progress.Phase("booting", spec.Root.Image)
	if err := in.warm(ctx, bare, spec.Network); err != nil {
		return in.closeAfter(err)
	}
	spec.Progress.Phase("saving the template", spec.Root.Image)
	if err := in.save(ctx, state); err != nil {
		return in.closeAfter(err)
	}
	in.Close()
	note, err := noteIn(ram)
	if err == nil {
		err = durable.Replace(filepath.Join(dir, templateNote), note)
	}
	if err != nil {
		return err
	}
	if v.readOnlyRAM() {
		if err := ram.Chmod(0o444); err != nil {
			return err
		}
	}
	// After a power failure, a template must not exist with incomplete content.
	err = errors.Join(ram.Sync(), state.Chmod(0o444), state.Sync())
	for _, l := range root {
		err = errors.Join(err, l.file.Sync())
	}
	return err
}

// blankOverlay creates an empty layer. Its header names no image. QEMU's arguments name the image
// below the layer at each start.
func blankOverlay(path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return qcow2.Create(f, diskSize)
}

// warm waits for the agent of a booted machine and runs warmUp. Afterwards a new link session can
// renew the agent again.
func (in *instance) warm(ctx context.Context, bare bool, n *machine.Network) error {
	c, err := client.Dial(ctx, in.link)
	if err != nil {
		return err
	}
	defer c.Close()
	identity := client.NewIdentity("template")
	if n != nil { // restored machines have the same network config, except for the MAC address
		identity.Network = &client.Network{
			MAC: templateMAC, Address: n.Address, Gateway: n.Gateway, Address6: n.Address6, Gateway6: n.Gateway6, DNS: []netip.Addr{n.Gateway}, MTU: n.MTU,
		}
	}
	if err := c.Renew(ctx, identity); err != nil {
		return err
	}
	if bare {
		_, err := c.Status(ctx)
		return err
	}
	for _, argv := range [][]string{{"/bin/sh", "-c", warmUp}, {"true"}} {
		if _, err := c.Exec(ctx, program.Command{Argv: argv}, program.Attach{}); err != nil {
			return err
		}
	}
	return nil
}

// save writes the state of the devices to a file. The machine runs until QEMU stops it at the end
// of the save. QEMU then saves it as a running machine, so that restored machines run immediately.
// The memory is then in its own file, and the changes to the disk are in a layer.
func (in *instance) save(ctx context.Context, state *os.File) error {
	_, err := in.monitor.run(ctx, command{name: "qmp_capabilities"}, ignoreShared)
	if err == nil {
		err = in.monitor.sendFile(ctx, "state", state)
	}
	if err == nil {
		_, err = in.monitor.run(ctx, command{"migrate", map[string]string{"uri": "fd:state"}})
	}
	for err == nil {
		var info struct {
			Status string `json:"status"`
			Error  string `json:"error-desc"`
		}
		var answer json.RawMessage
		if answer, err = in.monitor.run(ctx, command{name: "query-migrate"}); err != nil {
			break
		}
		if err = json.Unmarshal(answer, &info); err != nil {
			break
		}
		switch info.Status {
		case "completed":
			return nil
		case "failed", "cancelled":
			return errors.New("QEMU could not save the machine: " + info.Error)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return err
}
