package hostagent

import (
	"context"
	"io"
	"strings"
	"syscall"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// Machines are what sandboxes are made of. Errors are those of package fault.
type Machines interface {
	// Create makes a machine for a sandbox and starts it, or has what ran in a template go on in it. When it fails or is cancelled nothing is left.
	Create(ctx context.Context, spec Spec) (Made, error)
	// Delete ends one and removes it with all that it holds. NotFound where there is none.
	Delete(ctx context.Context, id string) error
	// Running tells whether one runs. It costs next to nothing.
	Running(id string) bool
	// Paused tells whether one is paused, of which Running says that it does not run. Of what there is not it says no.
	Paused(ctx context.Context, id string) (bool, error)
	// Pause writes one down and ends it. With an error it runs as before. Precondition: it does not run.
	Pause(ctx context.Context, id string) error
	// Resume has one go on that is paused. With an error it stays as it was. Precondition: it can't with the programs that are there now, and may with those that it was paused with.
	// Corrupt: it never can.
	Resume(ctx context.Context, id string) error
	// Keep has one become a template: with what runs in it, or, where it is to be flat, of its files alone. Until that is so it is what it was; but with an error one that
	// ran may be paused. What about says of a template that takes as many bytes is kept with it. Precondition: it can't be paused, as it has ended.
	Keep(ctx context.Context, id string, flat bool, about func(sizeBytes int64) string) error
	// Settle ends what is left of the machine that a template was. It is no error where nothing is.
	Settle(ctx context.Context, id string) error
	// Kept gives all templates, and removes what was left of others.
	Kept(ctx context.Context) ([]Kept, error)
	// Forget removes a template.
	Forget(ctx context.Context, id string) error
	// Connect connects to one that runs. Precondition: it does not, and that stays so.
	Connect(ctx context.Context, id string) (Machine, error)
	// MadeFor gives those that were made with a specification's Making.
	MadeFor(ctx context.Context, making string) ([]string, error)
}

// Machine is a connection to one.
type Machine interface {
	Run(ctx context.Context, c client.Command, stdout, stderr io.Writer) (remote.Exit, error)
	Open(ctx context.Context, tag string, c client.Command) (remote.Shell, error)
	Tagged(ctx context.Context, tag string) ([]remote.Shell, error)
	ReadShell(ctx context.Context, read remote.ShellRead) (remote.ShellOutput, error)
	WriteShell(ctx context.Context, id string, typed []byte) (remote.Shell, error)
	ResizeShell(ctx context.Context, id string, cols, rows int) (remote.Shell, error)
	SignalShell(ctx context.Context, id string, sig syscall.Signal) (remote.Shell, error)
	KillShell(ctx context.Context, id string) (remote.Shell, error)
	ReadMachineFile(ctx context.Context, path string, to io.Writer) error
	WriteMachineFile(ctx context.Context, path string, from io.Reader) error
	RemoveMachinePath(ctx context.Context, path string) error
	MakeMachineFolder(ctx context.Context, path string) error
	ListMachine(ctx context.Context, path string, depth int, each func(listing.Entry) error) error
	Usage(ctx context.Context) (remote.Usage, error)
	Close() error
}

// Spec says what machine a sandbox is to have.
type Spec struct {
	SandboxID   string
	Making      string // of this one making: another of the same sandbox has another
	From        string // the template; empty: Environment
	Environment string
	Named       bool // a client named the environment, and not the operator: no registry is asked for a name that may be a mistake
	VCPUs       int  // of a template that is not flat it is as many as the machine had that it was, and of memory as much
	MemoryMB    int
	DiskSizeMB  int // of /workspace; a template has its own
}

// Kept is a template.
type Kept struct {
	ID    string
	About string
}

// Made is a machine that was made.
type Made struct {
	ID        string
	Isolation string
}

// Workspaces are machines that are workspaces.
type Workspaces struct {
	Manager   *workspace.Manager
	Isolation machine.Isolation
	Network   string // one of store's policies
}

// The labels of workspaces: whose one is; by which making it is found when the host agent died before it had noted it; and what a template is.
const (
	label       = "pyro-host-sandbox"
	makingLabel = "pyro-host-making"
	aboutLabel  = "pyro-host-template"
)

// Create makes a workspace. It does not expire by itself: whoever calls this decides on that.
func (w Workspaces) Create(ctx context.Context, spec Spec) (Made, error) {
	want := workspace.Spec{
		Kind: store.KindWorkspace, Environment: spec.Environment, Isolation: w.Isolation, VCPUCount: spec.VCPUs, MemMiB: spec.MemoryMB, DiskMiB: spec.DiskSizeMB, Network: w.Network,
		Labels: map[string]string{label: spec.SandboxID, makingLabel: spec.Making},
	}
	if spec.From != "" {
		made, err := w.Manager.FromTemplate(ctx, spec.From, want)
		return Made{made.ID, made.Spec.Isolation}, err
	}
	if _, err := w.Manager.Environments.Inspect(ctx, spec.Environment); fault.KindOf(err) == fault.NotFound {
		switch {
		case fault.HintOf(err) != "pyro env pull "+spec.Environment: // it is not the name of an image either
			return Made{}, err
		case spec.Named && !namesRegistry(spec.Environment):
			return Made{}, fault.New(fault.NotFound, "find template", fault.Printable(spec.Environment), "no template and no installed environment has this name").
				WithHint("pyro env pull %s", spec.Environment)
		}
	}
	made, err := w.Manager.Create(ctx, want)
	return Made{made.ID, made.Spec.Isolation}, err
}

// namesRegistry reports whether a reference of an image begins with its registry.
func namesRegistry(reference string) bool {
	host, _, ok := strings.Cut(reference, "/")
	return ok && (strings.ContainsAny(host, ".:") || host == "localhost")
}

// Delete removes a workspace.
func (w Workspaces) Delete(ctx context.Context, id string) error {
	return w.Manager.Delete(ctx, store.KindWorkspace, id)
}

// Running tells whether its supervisor does.
func (w Workspaces) Running(id string) bool { return w.Manager.Running(id) }

// Paused looks into its record.
func (w Workspaces) Paused(ctx context.Context, id string) (bool, error) {
	now, err := w.Manager.Get(ctx, store.KindWorkspace, id)
	if fault.KindOf(err) == fault.NotFound {
		return false, nil
	}
	return now.State == workspace.Paused, err
}

// Pause pauses a workspace.
func (w Workspaces) Pause(ctx context.Context, id string) error {
	_, err := w.Manager.Pause(ctx, store.KindWorkspace, id)
	return err
}

// Resume has it go on.
func (w Workspaces) Resume(ctx context.Context, id string) error {
	_, err := w.Manager.Resume(ctx, store.KindWorkspace, id, nil)
	return err
}

// Keep has a workspace become a template.
func (w Workspaces) Keep(ctx context.Context, id string, flat bool, about func(sizeBytes int64) string) error {
	labels := func(size int64) map[string]string { return map[string]string{aboutLabel: about(size)} }
	if flat {
		return w.Manager.FlattenTemplate(ctx, id, labels, nil)
	}
	return w.Manager.MakeTemplate(ctx, id, labels)
}

// Settle ends its supervisor.
func (w Workspaces) Settle(ctx context.Context, id string) error {
	return w.Manager.SettleTemplate(ctx, id)
}

// Kept gives the templates that were sandboxes.
func (w Workspaces) Kept(ctx context.Context) (kept []Kept, err error) {
	if err := w.Manager.SweepTemplates(ctx); err != nil {
		return nil, err
	}
	all, err := w.Manager.Templates(ctx)
	for _, one := range all {
		if about, ok := one.Labels[aboutLabel]; ok {
			kept = append(kept, Kept{one.ID, about})
		}
	}
	return kept, err
}

// Forget removes a template.
func (w Workspaces) Forget(ctx context.Context, id string) error {
	return w.Manager.DeleteTemplate(ctx, id)
}

// Connect connects to its supervisor.
func (w Workspaces) Connect(ctx context.Context, id string) (Machine, error) {
	return w.Manager.Machine(ctx, store.KindWorkspace, id)
}

// MadeFor gives the workspaces that are marked so.
func (w Workspaces) MadeFor(ctx context.Context, making string) ([]string, error) {
	all, err := w.Manager.Store.Workspaces(ctx, store.KindWorkspace)
	var ids []string
	for _, one := range all {
		if one.Labels[makingLabel] == making {
			ids = append(ids, one.ID)
		}
	}
	return ids, err
}
