package hostagent

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/network"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// Machines creates and controls the machines of sandboxes. Its methods return errors from package
// fault.
type Machines interface {
	// Create creates and starts a machine for a sandbox. With a template that is not flat, it
	// resumes the processes that ran in the template. If Create fails or is cancelled, it leaves no
	// machine and no data.
	Create(ctx context.Context, spec Spec) (Created, error)
	// Fork creates a machine with the state of another machine, its snapshot, or its processes if
	// live is set. It uses only the IDs in spec. If Fork fails or is cancelled, it leaves no new
	// machine and no data.
	Fork(ctx context.Context, id string, fork Fork, spec Spec) (Created, error)
	// Delete stops a machine and removes it with all its data. It fails with NotFound if the
	// machine does not exist.
	Delete(ctx context.Context, id string) error
	// Running reports whether a machine runs. It is a cheap call.
	Running(id string) bool
	// AwaitEnd returns when a machine has ended or was paused. It does not poll.
	AwaitEnd(ctx context.Context, id string) error
	// Paused reports whether a machine is paused. A paused machine does not run. Paused returns
	// false if the machine does not exist.
	Paused(ctx context.Context, id string) (bool, error)
	// Pause saves a machine to disk and stops it. If Pause fails, the machine keeps running. It
	// fails with Precondition if the machine does not run.
	Pause(ctx context.Context, id string) error
	// Resume resumes a paused machine. If Resume fails, the machine stays paused. It fails with
	// Precondition if the installed programs can't resume the machine, but the programs that paused
	// it might. It fails with Corrupt if no program can resume the machine.
	Resume(ctx context.Context, id string) error
	// MakeTemplate turns a machine into a template. The template contains the machine's processes,
	// or only its files if flat is set. MakeTemplate stores the result of record with the template.
	// If it fails, there is no template, but a machine that was running may be paused. It fails
	// with Precondition if the machine has ended and therefore can't be paused.
	MakeTemplate(ctx context.Context, id string, flat bool, record func(sizeBytes int64) string) error
	// EndSource stops leftover processes of a machine that became a template. It does nothing if
	// the machine no longer exists.
	EndSource(ctx context.Context, id string) error
	// Templates returns all templates. It also removes leftovers of interrupted calls of
	// MakeTemplate and DeleteTemplate.
	Templates(ctx context.Context) ([]Template, error)
	// DeleteTemplate removes a template.
	DeleteTemplate(ctx context.Context, id string) error
	// Connect connects to a running machine. It fails with Precondition if the machine has ended
	// and nothing will restart it.
	Connect(ctx context.Context, id string) (Machine, error)
	// WatchFolders watches folders of a running machine, see remote.Client.WatchFolders. It fails
	// with Precondition if the machine does not run. A pause ends it with Unavailable.
	WatchFolders(ctx context.Context, id string, paths []string, changed func(folders uint64) error) error
	// DialPort connects to a TCP port on a loopback address of a machine. ctx limits only the
	// dialing. It fails with Unavailable if no program listens on the port.
	DialPort(ctx context.Context, id string, port int) (net.Conn, error)
	// FindByCreation returns the IDs of the machines that were created with a CreationID.
	FindByCreation(ctx context.Context, creationID string) ([]string, error)
}

// Machine is a connection to a machine.
type Machine interface {
	Run(ctx context.Context, c program.Command, to program.Attach) (workspace.Exit, error)
	Open(ctx context.Context, tag string, c program.Command) (workspace.Shell, error)
	Tagged(ctx context.Context, tag string) ([]workspace.Shell, error)
	ReadShell(ctx context.Context, read workspace.ShellRead) (workspace.ShellOutput, error)
	WriteShell(ctx context.Context, id string, typed []byte) (workspace.Shell, error)
	ResizeShell(ctx context.Context, id string, cols, rows int) (workspace.Shell, error)
	SignalShell(ctx context.Context, id string, sig syscall.Signal) (workspace.Shell, error)
	KillShell(ctx context.Context, id string) (workspace.Shell, error)
	ReadMachineFile(ctx context.Context, path string, to io.Writer) error
	WriteMachineFile(ctx context.Context, path string, from io.Reader) error
	RemoveMachinePath(ctx context.Context, path string) error
	RenameMachinePath(ctx context.Context, from, to string) error
	MakeMachineFolder(ctx context.Context, path string) error
	ListMachine(ctx context.Context, path string, depth int, each func(listing.Entry) error) error
	Usage(ctx context.Context) (workspace.Usage, error)
	Close() error
}

// Spec describes the machine of a new sandbox.
type Spec struct {
	SandboxID   string
	CreationID  string // unique to this call of Create
	Template    string // ID of the template; if empty, Environment is used
	Environment string
	// NamedByClient is true if a client chose the environment, and false if the operator did. A
	// client's name may be a mistake. So if the environment is not installed, Create contacts a
	// registry only if the name includes one. A client must not reach the operator's networks or
	// use the operator's credentials. So the registry must be at a public address, and Create logs
	// in to none.
	NamedByClient bool
	VCPUs         int // if the template is not flat, VCPUs and MemoryMB must be the same as for its machine
	MemoryMB      int
	DiskSizeMB    int // size of /workspace; a template has its own size
}

// Fork selects the parts of the source that a fork copies.
type Fork struct {
	Live     bool   // also the memory and the processes
	Snapshot string // the name of a snapshot; if empty, the present state
}

// Template is a template and the record that was stored with it.
type Template struct {
	ID     string
	Record string
}

// Created describes a machine that Create made.
type Created struct {
	ID        string
	Isolation string
}

// Workspaces implements Machines. Its machines are workspaces.
type Workspaces struct {
	Manager   *workspace.Manager
	Isolation machine.Isolation
	Network   string // a network policy from package store
}

// Labels of workspaces that are sandboxes. creationLabel serves to find the workspace of an
// interrupted creation.
const (
	sandboxLabel  = "pyro-host-sandbox"
	creationLabel = "pyro-host-making"
	templateLabel = "pyro-host-template"
)

// Create creates a workspace that has no time to live, because the host agent decides when to pause
// it.
func (w Workspaces) Create(ctx context.Context, spec Spec) (Created, error) {
	want := workspace.Spec{
		Kind: store.KindWorkspace, Environment: spec.Environment, Isolation: w.Isolation, VCPUCount: spec.VCPUs, MemMiB: spec.MemoryMB, DiskMiB: spec.DiskSizeMB, Network: w.Network,
		Labels: spec.labels(),
	}
	if spec.Template != "" {
		made, err := w.Manager.FromTemplate(ctx, spec.Template, want)
		return Created{made.ID, made.Spec.Isolation}, err
	}
	if _, err := w.Manager.Environments.Inspect(ctx, spec.Environment); fault.KindOf(err) == fault.NotFound {
		switch {
		case !errors.Is(err, environment.ErrNotInstalled): // the name is not an image name either
			return Created{}, err
		case spec.NamedByClient && !namesRegistry(spec.Environment):
			return Created{}, fault.New(fault.NotFound, "find template", fault.Printable(spec.Environment), "no template and no installed environment has this name").
				WithHint("pyro env pull %s", spec.Environment)
		}
	}
	if spec.NamedByClient {
		ref, err := w.Manager.Environments.UseFor(ctx, spec.Environment, network.CheckPublic, nil)
		if err != nil {
			return Created{}, err
		}
		defer ref.Close() // Until then, Manager.Create does not need to pull.
	}
	made, err := w.Manager.Create(ctx, want)
	return Created{made.ID, made.Spec.Isolation}, err
}

func (s Spec) labels() map[string]string {
	return map[string]string{sandboxLabel: s.SandboxID, creationLabel: s.CreationID}
}

// Fork forks a workspace.
func (w Workspaces) Fork(ctx context.Context, id string, fork Fork, spec Spec) (Created, error) {
	made, err := w.Manager.Fork(ctx, id, fork.Snapshot, fork.Live, 1, workspace.Spec{Labels: spec.labels()})
	if err != nil {
		return Created{}, err
	}
	return Created{made[0].ID, made[0].Spec.Isolation}, nil
}

// namesRegistry reports whether an image reference includes a registry.
func namesRegistry(reference string) bool {
	host, _, ok := strings.Cut(reference, "/")
	return ok && (strings.ContainsAny(host, ".:") || host == "localhost")
}

// Delete removes a workspace.
func (w Workspaces) Delete(ctx context.Context, id string) error {
	return w.Manager.Delete(ctx, store.KindWorkspace, id)
}

// Running reports whether the supervisor of a workspace is running.
func (w Workspaces) Running(id string) bool { return w.Manager.Running(id) }

// AwaitEnd waits until the supervisor of a workspace has ended.
func (w Workspaces) AwaitEnd(ctx context.Context, id string) error {
	return w.Manager.AwaitEnd(ctx, id)
}

// Paused reports whether a workspace's record says that it is paused.
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

// Resume resumes a workspace.
func (w Workspaces) Resume(ctx context.Context, id string) error {
	_, err := w.Manager.Resume(ctx, store.KindWorkspace, id, nil)
	return err
}

// MakeTemplate turns a workspace into a template.
func (w Workspaces) MakeTemplate(ctx context.Context, id string, flat bool, record func(sizeBytes int64) string) error {
	labels := func(size int64) map[string]string { return map[string]string{templateLabel: record(size)} }
	if flat {
		return w.Manager.FlattenTemplate(ctx, id, labels, nil)
	}
	return w.Manager.MakeTemplate(ctx, id, labels)
}

// EndSource stops the supervisor of a workspace that became a template.
func (w Workspaces) EndSource(ctx context.Context, id string) error {
	return w.Manager.TidyTemplate(ctx, id)
}

// Templates returns the templates that were made from sandboxes.
func (w Workspaces) Templates(ctx context.Context) (all []Template, err error) {
	if err := w.Manager.SweepTemplates(ctx); err != nil {
		return nil, err
	}
	workspaces, err := w.Manager.Templates(ctx)
	for _, one := range workspaces {
		if record, ok := one.Labels[templateLabel]; ok {
			all = append(all, Template{one.ID, record})
		}
	}
	return all, err
}

// DeleteTemplate removes a template.
func (w Workspaces) DeleteTemplate(ctx context.Context, id string) error {
	return w.Manager.DeleteTemplate(ctx, id)
}

// Connect connects to the supervisor of a workspace.
func (w Workspaces) Connect(ctx context.Context, id string) (Machine, error) {
	return w.Manager.Machine(ctx, store.KindWorkspace, id)
}

// WatchFolders watches folders of a workspace.
func (w Workspaces) WatchFolders(ctx context.Context, id string, paths []string, changed func(folders uint64) error) error {
	return w.Manager.WatchFolders(ctx, id, paths, changed)
}

// DialPort connects to a port of a workspace.
func (w Workspaces) DialPort(ctx context.Context, id string, port int) (net.Conn, error) {
	return w.Manager.DialPort(ctx, id, port)
}

// FindByCreation returns the IDs of the workspaces with a creation label.
func (w Workspaces) FindByCreation(ctx context.Context, creationID string) ([]string, error) {
	all, err := w.Manager.Store.Workspaces(ctx, store.KindWorkspace)
	var ids []string
	for _, one := range all {
		if one.Labels[creationLabel] == creationID {
			ids = append(ids, one.ID)
		}
	}
	return ids, err
}
