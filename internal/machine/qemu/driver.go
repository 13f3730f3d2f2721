// Package qemu starts machines under QEMU with QEMU's microvm machine type. They use either
// hardware virtualisation (kvm) or emulation (tcg).
//
// A machine is restored from a template. A template is a saved machine with the same shape and
// environment. It was booted once, and its agent was ready (internal/machine/template, build.go).
// The new machine maps the template's memory copy-on-write, and its disk is a new layer. So a start
// costs only the differences. QEMU is confined (confine.go), has only sockets without names, and
// dies with pyro.
package qemu

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/guest"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/template"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// Config has the dependencies of a driver.
type Config struct {
	Isolation machine.Isolation // machine.KVM or machine.TCG
	Dirs      dirs.Dirs
	Store     *environment.Store // provides the kernel and the initramfs
	Guest     *guest.Program
}

// Driver starts machines under QEMU with one accelerator.
type Driver struct {
	cfg       Config
	templates template.Store

	mu      sync.Mutex
	parts   *parts
	verdict *verdict
}

var _ machine.Driver = (*Driver)(nil)

// New creates a driver. It starts nothing.
func New(cfg Config) *Driver {
	return &Driver{cfg: cfg, templates: template.Store{Dir: cfg.Dirs.Templates()}}
}

// Isolation returns the isolation level, which names the accelerator.
func (d *Driver) Isolation() machine.Isolation { return d.cfg.Isolation }

// Features returns the features of a virtual machine.
func (d *Driver) Features() machine.Features {
	return machine.Features{
		Isolated: true, OwnKernel: true, Prepares: true, BlockDisks: true, MemorySnapshot: true, Limits: true, OOMKiller: true, Namespaces: true,
		SetUID: true, Network: true, Containers: true,
	}
}

// parts are the files that all machines use. The driver finds them only once.
type parts struct {
	binary    Binary
	kernel    environment.Kernel
	initramfs environment.Initramfs
}

// gather finds the parts. If there is no kernel or initramfs yet, it makes them.
func (d *Driver) gather(ctx context.Context, report progress.Func) (parts, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.parts != nil {
		return *d.parts, nil
	}
	var p parts
	var err error
	if p.binary, err = FindBinary(); err != nil {
		return p, err
	}
	if p.kernel, err = d.cfg.Store.Kernel(ctx, report); err != nil {
		return p, err
	}
	if p.initramfs, err = d.cfg.Store.Initramfs(ctx, p.kernel, d.cfg.Guest); err != nil {
		return p, err
	}
	d.parts = &p
	return p, nil
}

// Start restores a machine from its template. If there is no template, Start makes one.
func (d *Driver) Start(ctx context.Context, spec machine.Spec) (machine.Machine, error) {
	in, err := d.start(ctx, spec)
	return in, fault.Wrap(err, "start machine", spec.ID)
}

func (d *Driver) start(ctx context.Context, spec machine.Spec) (*instance, error) {
	began := time.Now()
	p, err := d.gather(ctx, spec.Progress)
	if err != nil {
		return nil, err
	}
	v, err := d.prove(ctx, spec.Progress)
	if err != nil {
		return nil, err
	}
	if spec.Saved != "" {
		checked := time.Now()
		in, err := d.resume(ctx, p, v, spec)
		if err == nil {
			in.phases = []machine.Phase{{Name: "prepare", Duration: checked.Sub(began)}, {Name: "restore", Duration: time.Since(checked)}}
		}
		return in, err
	}
	key := d.key(p, v, spec)
	for attempt := 1; ; attempt++ {
		t, err := d.template(ctx, p, v, key, spec)
		if err != nil {
			return nil, err
		}
		opened := time.Now()
		in, err := d.restore(ctx, p, v, t, key, spec)
		if err == nil {
			in.phases = []machine.Phase{{Name: "template", Duration: opened.Sub(began)}, {Name: "restore", Duration: time.Since(opened)}}
			return in, nil
		}
		t.Close()
		if attempt == 2 || ctx.Err() != nil || fault.KindOf(err) == fault.Exhausted {
			return nil, err
		}
		// QEMU rejects a state that QEMU itself has saved. So the template is useless, although its
		// checksums are right.
		spec.Progress.Phase("template could not be restored, making it again", key.Hash())
		if err := d.templates.Reject(key); err != nil {
			return nil, err
		}
	}
}

// bare reports whether a machine starts with a root that an earlier machine has changed. The
// template for such a machine has no root mounted and serves all environments. The template for a
// new root has the environment mounted, so that the first commands run faster.
func bare(spec machine.Spec) bool { return !spec.Storage.FreshRoot() }

// key contains everything on which the machine's template depends.
func (d *Driver) key(p parts, v verdict, spec machine.Spec) template.Key {
	host := ""
	if d.cfg.Isolation == machine.KVM {
		host = hostProcessor()
	}
	root, bare := spec.Root.Digest, bare(spec)
	if bare {
		root = ""
	}
	return template.Key{
		Form:      templateForm,
		QEMU:      p.binary.ID,
		Arguments: strings.Join(shape(d.cfg.Isolation, spec.VCPUs, spec.MemMiB, spec.Network != nil), " ") + "\n" + kernelLine(d.cfg.Isolation, v.TSCKHz, bare),
		Host:      host,
		Kernel:    p.kernel.Digest,
		Initramfs: p.initramfs.Digest,
		Root:      root,
	}
}

// template opens the template for a key. If there is no such template, it makes one.
func (d *Driver) template(ctx context.Context, p parts, v verdict, key template.Key, spec machine.Spec) (*template.Template, error) {
	t, err := d.templates.Open(key)
	if err == nil {
		return t, nil
	}
	phase := "starting a machine for the first time"
	if fault.KindOf(err) == fault.Corrupt {
		phase = "template is damaged, making it again"
	}
	spec.Progress.Phase(phase, spec.Root.Image)
	waiting := func() { spec.Progress.Phase("waiting for another pyro that makes the same template", spec.Root.Image) }
	return d.templates.Build(ctx, key, waiting, func(ctx context.Context, dir string) error {
		return d.build(ctx, p, v, spec, dir)
	})
}

// origin is the template or the saved machine that a machine is restored from.
type origin struct {
	accel   machine.Isolation
	key     template.Key // Key of the template whose memory the machine maps.
	verdict verdict
	spec    machine.Spec
	ram     *os.File // Memory that the machine maps copy-on-write.
	digest  string   // Digest of ram.
	note    []byte   // The kernel's note about its memory layout.
	overlay *os.File // Root layer that is deleted with the machine.
	state   *os.File // State of the devices, for QEMU.
	root    []layer
	volume  []layer
}

// restore starts QEMU with the memory of a template and the machine's disks. The instance closes
// the template t when the machine ends.
func (d *Driver) restore(ctx context.Context, p parts, v verdict, t *template.Template, key template.Key, spec machine.Spec) (*instance, error) {
	var f opener
	defer f.close()
	o := &origin{accel: d.cfg.Isolation, key: key, verdict: v, spec: spec, state: f.open(t.Path(templateState), os.O_RDONLY), ram: f.open(t.Path(templateRAM), os.O_RDONLY)}
	o.root = f.root(t, spec)
	if spec.Storage != nil {
		o.volume = f.layers(spec.Storage.Block.Volume, true)
	}
	if f.err != nil {
		return nil, f.err
	}
	var err error
	if o.digest, err = t.Digest(templateRAM); err != nil {
		return nil, err
	}
	if o.note, err = os.ReadFile(t.Path(templateNote)); err != nil {
		return nil, err
	}
	in, err := d.restoreFrom(ctx, p, o, nil)
	if err != nil {
		return nil, err
	}
	in.keep(&f)
	in.onEnd(t.Close)
	return in, nil
}

// keep takes over the open files that Save needs. They are closed when the machine ends.
func (in *instance) keep(f *opener) {
	o := in.origin
	files := []*os.File{f.release(o.ram), f.release(o.state)}
	if o.spec.Storage == nil {
		o.overlay = f.release(o.root[len(o.root)-1].file)
		files = append(files, o.overlay)
	}
	o.root, o.volume = nil, nil
	in.onEnd(func() {
		for _, file := range files {
			file.Close()
		}
	})
}

// restoreFrom starts QEMU from an origin. If fill is not nil, restoreFrom calls it to change the
// memory. At that time QEMU has mapped the memory but has not read the state of the devices.
func (d *Driver) restoreFrom(ctx context.Context, p parts, o *origin, fill func(context.Context, *instance) error) (*instance, error) {
	accel, spec := d.cfg.Isolation, o.spec
	var stateFD int
	in, err := start(accel, p.binary.Path, spec.ID, spec.Dir, func(w *wiring) []string {
		args := shape(accel, spec.VCPUs, spec.MemMiB, spec.Network != nil)
		if spec.Network != nil {
			args = append(args, linked(w.add(spec.Network.Link))...)
		}
		args = append(args, memory(w.add(o.ram), spec.MemMiB, false, o.verdict.readOnlyRAM())...)
		args = append(args, layered(w, rootDisk, o.root...)...)
		if o.volume == nil {
			args = append(args, noDisk(volumeDisk)...)
		} else {
			args = append(args, layered(w, volumeDisk, o.volume...)...)
		}
		stateFD = w.add(o.state)
		return append(args, "-incoming", "defer")
	})
	if err != nil {
		return nil, err
	}
	commands := []command{{name: "qmp_capabilities"}, ignoreShared}
	if spec.Network != nil {
		commands = append(commands, unannounced)
	}
	if fill != nil {
		err = fill(ctx, in)
	}
	if err == nil {
		_, err = in.monitor.run(ctx, append(commands, command{"migrate-incoming", map[string]string{"uri": fmt.Sprintf("fd:%d", stateFD)}})...)
	}
	if err == nil {
		err = in.await(ctx, in.running)
	}
	if err != nil {
		return nil, in.closeAfter(err)
	}
	in.nodes[rootDisk], in.nodes[volumeDisk] = nodesOf(rootDisk, len(o.root)), nodesOf(volumeDisk, len(o.volume))
	in.origin = o
	return in, nil
}

// root opens the layers of a machine's root: the environment's image and the layers over it. A new
// root is a copy of the template's small layer. If the machine has storage, the copy is a
// persistent file.
func (o *opener) root(t *template.Template, spec machine.Spec) []layer {
	image := layer{file: o.open(spec.Root.Image, os.O_RDONLY), raw: true}
	if bare(spec) {
		return append([]layer{image}, o.layers(spec.Storage.Block.Root, false)...)
	}
	saved := o.open(t.Path(templateOverlay), os.O_RDONLY)
	if spec.Storage == nil {
		overlay := o.unnamed(spec.Dir)
		if o.err == nil {
			o.err = disk.Copy(overlay, saved)
		}
		return []layer{image, {file: overlay}}
	}
	if o.err == nil {
		o.err = copyTo(spec.Storage.Block.Root[0], saved)
	}
	return append([]layer{image}, o.layers(spec.Storage.Block.Root, false)...)
}

// copyTo copies a file to path and flushes the copy. If there is an error, no file exists at path.
func copyTo(path string, from *os.File) error {
	return durable.Replacement{Temp: ".part-*"}.WriteFunc(path, func(part *os.File) error { return disk.Copy(part, from) })
}
