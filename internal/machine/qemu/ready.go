package qemu

import (
	"context"
	"os"

	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
)

// Ready looks for a machine's template and for everything in its key. It reads the disk and does
// not use the cached results of gather and Prove.
func (d *Driver) Ready(ctx context.Context, spec machine.Spec) (machine.Readiness, error) {
	if d.cfg.Isolation == machine.KVM {
		if err := kvmUsable(); err != nil {
			return machine.Readiness{}, err
		}
	}
	binary, err := FindBinary()
	if err != nil {
		return machine.Readiness{}, err
	}
	r := machine.Readiness{Parts: map[string]string{
		machine.PartEnvironment: spec.Root.Digest, machine.PartAgent: d.cfg.Guest.Digest(), "QEMU": binary.ID, "the host's processor or kernel": hostProcessor(),
		environment.KernelVariable: os.Getenv(environment.KernelVariable),
	}}
	p := parts{binary: binary}
	var ok bool
	if p.kernel, ok, err = d.cfg.Store.KnownKernel(); err != nil || !ok {
		r.Missing = "there is no guest kernel, or it has been changed"
		return r, err
	}
	r.Parts["the guest kernel"] = p.kernel.Digest
	if p.initramfs, ok = d.cfg.Store.KnownInitramfs(p.kernel, d.cfg.Guest); !ok {
		r.Missing = "there is no initramfs of this guest kernel and agent"
		return r, nil
	}
	v, ok := d.readVerdict(p, d.cfg.Isolation)
	if !ok {
		r.Missing = "this host's processor has not been tested"
		return r, nil
	}
	if !v.Works {
		return r, v.err(d.cfg.Isolation)
	}
	key := d.key(p, v, spec)
	r.Parts["the form of templates"] = key.Form + " " + key.Arguments
	t, err := d.templates.Open(key)
	switch fault.KindOf(err) {
	case "":
		t.Close()
	case fault.NotFound:
		r.Missing = "there is no template of such a machine"
	case fault.Corrupt:
		r.Missing, r.Damaged = "the template of such a machine is damaged", true
	default:
		return r, err
	}
	return r, ctx.Err()
}

// Invalidate removes a machine's template. If a part of the template's key does not exist, such as
// the kernel, there is no template either.
func (d *Driver) Invalidate(_ context.Context, spec machine.Spec) error {
	binary, err := FindBinary()
	if err != nil {
		return err
	}
	p := parts{binary: binary}
	var ok bool
	if p.kernel, ok, err = d.cfg.Store.KnownKernel(); err != nil || !ok {
		return err
	}
	if p.initramfs, ok = d.cfg.Store.KnownInitramfs(p.kernel, d.cfg.Guest); !ok {
		return nil
	}
	v, ok := d.readVerdict(p, d.cfg.Isolation)
	if !ok {
		return nil
	}
	return d.templates.Reject(d.key(p, v, spec))
}
