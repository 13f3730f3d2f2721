// Package gvisor starts machines under gVisor: a kernel in user space, the sentry, that answers their system calls. It needs no hardware virtualisation and runs
// code at the host's speed.
//
// A machine is one process, pyro-runsc, and what it forks: no daemon, no name in the file system. It finds its agent and its environment in images that it
// reads (image.go), writes to a file without a name, and is reached by two pipes. With storage another process serves its volume (volume.go), and what it
// changes of its root can be kept (storage.go). It can be written down while it stands still (save.go), and gone on with (resume.go). It is confined beneath gVisor's own walls (launch.go), bounded by cgroups where the host allows
// (internal/machine/gvisor/cgroup), and dies with pyro.
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

// Config says what a driver works with.
type Config struct {
	Dirs    dirs.Dirs
	Guest   *guest.Program
	Program string // pyro's, beside which the helper may be; may be empty
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

// New makes a driver. It looks at nothing yet.
func New(cfg Config) *Driver {
	return &Driver{cfg: cfg, templates: template.Store{Dir: cfg.Dirs.Templates()}, groups: sync.OnceValues(cgroup.Find)}
}

// Isolation is gvisor.
func (d *Driver) Isolation() machine.Isolation { return machine.GVisor }

// Features are those of a sandbox. Limits depend on the host.
func (d *Driver) Features() machine.Features {
	_, err := d.groups()
	return machine.Features{Isolated: true, Limits: err == nil, Namespaces: true, Network: true, Containers: true, SavedState: true}
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
			return nil, fault.Wrap(err, "go on from what was saved", spec.Saved)
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
		err = fault.Wrap(s.goOn(ctx, from), "go on from what was saved", spec.Saved)
	} else {
		err = s.started(ctx)
	}
	if err != nil {
		return nil, s.giveUp(err)
	}
	s.guard()
	s.phases = []machine.Phase{{Name: "images", Duration: opened.Sub(began)}, {Name: "sandbox", Duration: time.Since(opened)}}
	return s, nil
}
