package qemu

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/qemu/saved"
	"github.com/pyro-mcp/pyro/internal/machine/record"
	"github.com/pyro-mcp/pyro/internal/machine/template"
)

// savedForm names the format of saved machines. Change it if Save writes another format.
const savedForm = "qemu-saved-3"

// description is the record of a saved machine.
type description struct {
	Key     template.Key `json:"key"` // key of the template that contains the machine's base memory
	TSCKHz  int          `json:"tsc_khz"`
	Shape   savedShape   `json:"shape"`
	RAM     ramRecord    `json:"ram"`
	Note    []byte       `json:"note"` // the kernel's note about its memory layout
	Memory  record.Sums  `json:"memory"`
	Devices record.Sums  `json:"devices"`
	Overlay *record.Sums `json:"overlay,omitempty"`
}

// ramRecord describes the file that contains a machine's base memory. The ctime of the file is
// ignored, because it changes when hard links are made and removed.
type ramRecord struct {
	Digest string     `json:"digest"`
	Stamp  disk.Stamp `json:"stamp"`
}

// savedShape contains the properties that must be the same when the machine is resumed.
type savedShape struct {
	Root    string `json:"root"`
	VCPUs   int    `json:"vcpus"`
	MemMiB  int    `json:"mem_mib"`
	Network bool   `json:"network"`
	Storage bool   `json:"storage"`
	Volume  bool   `json:"volume"`
}

func shapeOf(spec machine.Spec) savedShape {
	return savedShape{
		Root: spec.Root.Digest, VCPUs: spec.VCPUs, MemMiB: spec.MemMiB, Network: spec.Network != nil,
		Storage: spec.Storage != nil, Volume: spec.Storage != nil && len(spec.Storage.Block.Volume) > 0,
	}
}

// fits returns an error that names the first difference between the saved machine and the new one.
func (r description) fits(d *Driver, p parts, v verdict, spec machine.Spec) error {
	want, is, key := r.Shape, shapeOf(spec), d.key(p, v, spec)
	hardware := func(arguments string) string { line, _, _ := strings.Cut(arguments, "\n"); return line }
	switch {
	case want.Root != is.Root:
		return record.Differs("the environment", want.Root, is.Root)
	case want.VCPUs != is.VCPUs:
		return record.Differs("the number of processors", want.VCPUs, is.VCPUs)
	case want.MemMiB != is.MemMiB:
		return record.Differs("the memory in MiB", want.MemMiB, is.MemMiB)
	case want.Network != is.Network:
		return record.Differs("the network link", want.Network, is.Network)
	case want.Storage != is.Storage:
		return record.Differs("the storage", want.Storage, is.Storage)
	case want.Volume != is.Volume:
		return record.Differs("the volume", want.Volume, is.Volume)
	case r.Key.QEMU != key.QEMU:
		return record.Differs("QEMU", r.Key.QEMU, key.QEMU)
	case r.Key.Host != key.Host:
		return record.Differs("the processor", fault.Printable(r.Key.Host), key.Host)
	case r.Key.Form != key.Form || r.Key.Initramfs != key.Initramfs || hardware(r.Key.Arguments) != hardware(key.Arguments):
		return record.Differs("pyro", r.Key.Form+" "+r.Key.Initramfs, key.Form+" "+key.Initramfs)
	case d.cfg.Isolation == machine.TCG && !near(r.TSCKHz, v.TSCKHz):
		return record.Differs("the frequency of the processor in kHz", r.TSCKHz, v.TSCKHz)
	}
	return nil
}

// near reports whether two measured frequencies can belong to the same processor. They can differ
// by 0.2 percent.
func near(a, b int) bool { return max(a, b)-min(a, b) <= max(a, b)/500 }

// resume starts a machine from the files that Save wrote. It checks the files while QEMU starts.
func (d *Driver) resume(ctx context.Context, p parts, v verdict, spec machine.Spec) (*instance, error) {
	in, err := d.resumeFrom(ctx, p, v, spec)
	return in, fault.Wrap(err, "resume the saved machine", spec.Saved)
}

func (d *Driver) resumeFrom(ctx context.Context, p parts, v verdict, spec machine.Spec) (*instance, error) {
	var r description
	if err := record.Read(spec.Saved, savedForm, &r); err != nil {
		return nil, err
	}
	if err := r.fits(d, p, v, spec); err != nil {
		return nil, err
	}
	path := func(name string) string { return filepath.Join(spec.Saved, name) }
	var f opener
	defer f.close()
	o := &origin{
		accel: d.cfg.Isolation, key: r.Key, verdict: v, spec: spec, digest: r.RAM.Digest, note: r.Note,
		state: f.open(path(savedDevices), os.O_RDONLY), ram: f.open(path(templateRAM), os.O_RDONLY),
	}
	memory := f.open(path(savedMemory), os.O_RDONLY)
	image := layer{file: f.open(spec.Root.Image, os.O_RDONLY), raw: true}
	var overlay *os.File
	if spec.Storage == nil {
		overlay = f.open(path(savedOverlay), os.O_RDONLY)
	} else {
		o.root = append([]layer{image}, f.layers(spec.Storage.Block.Root, false)...)
		o.volume = f.layers(spec.Storage.Block.Volume, true)
	}
	if f.err != nil {
		if open := (*fs.PathError)(nil); errors.As(f.err, &open) && filepath.Dir(open.Path) == filepath.Clean(spec.Saved) {
			return nil, record.Missing(f.err)
		}
		return nil, f.err
	}
	checking, stop := context.WithCancel(ctx)
	checked := make(chan error, 1)
	go func() { checked <- r.check(checking, path(templateRAM), o.state, overlay) }()
	check := sync.OnceValue(func() error { return <-checked })
	defer check() // the check reads files that this function closes
	defer stop()
	if overlay != nil {
		mine := f.unnamed(spec.Dir)
		if f.err == nil {
			f.err = disk.Copy(mine, overlay)
		}
		if f.err != nil {
			return nil, f.err
		}
		o.root = []layer{image, {file: mine}}
	}
	in, err := d.restoreFrom(ctx, p, o, func(ctx context.Context, in *instance) error {
		if err := r.fill(ctx, in, memory); err != nil {
			return err
		}
		return check()
	})
	if err != nil {
		if damaged := check(); damaged != nil { // the damage might be the reason why QEMU ended
			return nil, damaged
		}
		return nil, err
	}
	in.keep(&f)
	return in, nil
}

// fill writes the saved memory to a QEMU process that has mapped the base. When QEMU sends its
// greeting, it has mapped the base.
func (r description) fill(ctx context.Context, in *instance, file *os.File) error {
	if err := in.await(ctx, in.monitor.greeted); err != nil {
		return err
	}
	memory, err := in.memory(int64(r.Shape.MemMiB) << 20)
	if err != nil {
		return err
	}
	defer memory.Close()
	return saved.Load(ctx, savedMemory, file, r.Memory, memory)
}

// check verifies all files except the saved memory. The error names the first damaged file.
func (r description) check(ctx context.Context, ram string, devices, overlay *os.File) error {
	if err := r.Devices.Check(ctx, savedDevices, devices); err != nil {
		return err
	}
	if overlay != nil {
		if r.Overlay == nil {
			return fault.Newf(fault.Corrupt, "%s does not belong to this saved machine", savedOverlay)
		}
		if err := r.Overlay.Check(ctx, savedOverlay, overlay); err != nil {
			return err
		}
	}
	stamp, err := disk.StampOf(ram)
	if err != nil || r.RAM.Stamp.SameContent(stamp) {
		return err
	}
	sum, err := disk.Hash(ram, nil)
	if err == nil && sum != r.RAM.Digest {
		err = fault.Newf(fault.Corrupt, "%s is damaged: it has another digest", templateRAM)
	}
	return err
}
