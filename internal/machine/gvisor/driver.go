// Package gvisor starts machines under gVisor. The sentry, which is gVisor's kernel in user space,
// answers the system calls of a machine. The machine needs no hardware virtualisation, and its code
// runs at the host's speed.
//
// A machine consists of the process pyro-runsc and its child processes. There is no daemon, and the
// machine has no name in the file system. It reads its agent and environment from images (image.go)
// and writes to an unnamed file. Its link consists of two pipes. If the machine has storage,
// another process serves the volume (volume.go), and the changes to the root can be saved
// (storage.go). A paused machine can be saved (save.go) and resumed (resume.go). In addition to
// gVisor, namespaces confine the machine (launch.go). Cgroups limit the machine if the host allows
// them (internal/machine/gvisor/cgroup). The machine dies when pyro dies.
package gvisor

import (
	"context"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/guest"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/gvisor/cgroup"
	"github.com/pyro-mcp/pyro/internal/machine/template"
)

// Config has the dependencies of a driver.
type Config struct {
	Dirs    dirs.Dirs
	Guest   *guest.Program
	Program string // path of pyro, because the helper might be in the same folder; can be empty
}

// Driver starts machines under gVisor.
type Driver struct {
	cfg       Config
	templates template.Store
	groups    func() (*cgroup.Parent, error)

	mu     sync.Mutex
	proved bool
}

var _ machine.Driver = (*Driver)(nil)

// New creates a driver. It starts nothing.
func New(cfg Config) *Driver {
	return &Driver{cfg: cfg, templates: template.Store{Dir: cfg.Dirs.Templates()}, groups: sync.OnceValues(cgroup.Find)}
}

// Isolation returns machine.GVisor.
func (d *Driver) Isolation() machine.Isolation { return machine.GVisor }

// Features returns the features of a sandbox. Whether Limits is set depends on the host.
func (d *Driver) Features() machine.Features {
	_, err := d.groups()
	return machine.Features{
		Isolated: true, OwnKernel: true, Prepares: true, Limits: err == nil, Namespaces: true, Network: true, Containers: true,
	}
}

// Start starts a sandbox with the agent as its first process.
func (d *Driver) Start(ctx context.Context, spec machine.Spec) (machine.Machine, error) {
	s, err := d.start(ctx, spec)
	if err != nil {
		return nil, fault.Wrap(err, "start machine", spec.ID)
	}
	return s, nil
}

func (d *Driver) start(ctx context.Context, spec machine.Spec) (*sandbox, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	began := time.Now()
	helper, err := FindHelper(d.cfg.Program)
	if err != nil {
		return nil, err
	}
	var from *source
	if spec.Saved != "" {
		if from, err = openSaved(spec.Saved, d.describe(helper, spec)); err != nil {
			return nil, fault.Wrap(err, "resume the saved machine", spec.Saved)
		}
		defer from.close()
	}
	images, err := d.images(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer images.close()
	opened := time.Now()
	s, err := d.launch(helper, images, spec, from)
	if err != nil {
		return nil, err
	}
	if from != nil {
		err = fault.Wrap(s.awaitRestore(ctx, from), "resume the saved machine", spec.Saved)
	} else {
		err = s.started(ctx)
	}
	if err != nil {
		return nil, s.closeAfter(err)
	}
	s.guard()
	s.phases = []machine.Phase{{Name: "images", Duration: opened.Sub(began)}, {Name: "sandbox", Duration: time.Since(opened)}}
	return s, nil
}
