package pyro

import (
	"context"
	"slices"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// WorkspacePath is where a workspace's files are, seen from its commands.
const WorkspacePath = workspace.Path

// WorkspaceState says whether a workspace or a machine can be used.
type WorkspaceState string

// The states.
const (
	StateCreated = WorkspaceState(workspace.Created) // a machine that was not started yet
	StateStarted = WorkspaceState(workspace.Started)
	StateStopped = WorkspaceState(workspace.Stopped)
	StatePaused  = WorkspaceState(workspace.Paused)  // it takes no memory; what is done next with it has all that ran in it go on
	StateDamaged = WorkspaceState(workspace.Damaged) // a part of it is missing: it can only be deleted
)

// Workspace is a workspace as it is now.
type Workspace struct {
	WorkspaceID string            `json:"workspace_id"`
	Name        string            `json:"name"`   // for people, empty where it has none
	Labels      map[string]string `json:"labels"` // for people

	State       WorkspaceState `json:"state"`
	StateReason string         `json:"state_reason,omitempty"` // why it is stopped or damaged

	Environment      string        `json:"environment"`
	WorkspacePath    string        `json:"workspace_path"` // of its files, seen from its commands
	ExecutionMode    ExecutionMode `json:"execution_mode"`
	Isolation        Isolation     `json:"isolation"`
	HostCompatReason string        `json:"host_compat_reason,omitempty"` // why no machine could be started, where host_compat was allowed and taken
	EmulatedReason   string        `json:"emulated_reason,omitempty"`    // why it could be no more than an emulated processor
	NetworkPolicy    NetworkPolicy `json:"network_policy"`
	Network          *NetworkInfo  `json:"network"` // null where the policy is off
	VCPUCount        int           `json:"vcpu_count"`
	MemMiB           int           `json:"mem_mib"`
	DiskMiB          int           `json:"disk_mib"` // of WorkspacePath; not a limit with IsolationNone
	TTLSeconds       int           `json:"ttl_seconds"`
	AutoPauseSeconds int           `json:"auto_pause_seconds,omitempty"`
	WorkspaceSeed    WorkspaceSeed `json:"workspace_seed"`
	Secrets          []SecretInfo  `json:"secrets"` // sorted by name

	CreatedAt      time.Time  `json:"created_at"`
	LastActivityAt time.Time  `json:"last_activity_at"`
	ExpiresAt      *time.Time `json:"expires_at"` // when it is stopped if nothing is done with it until then; null where it is stopped already
	CommandCount   int        `json:"command_count"`
	ServiceCount   int        `json:"service_count"` // that were started since it was created or last reset
	RunningCount   int        `json:"running_service_count"`
	ResetCount     int        `json:"reset_count"`
	LastResetAt    *time.Time `json:"last_reset_at"` // null where it never was
}

// WorkspaceSeed tells how a workspace was first filled.
type WorkspaceSeed struct {
	Mode        string `json:"mode"`                  // empty, directory or archive
	SeedPath    string `json:"seed_path,omitempty"`   // on the host
	OriginKind  string `json:"origin_kind,omitempty"` // project, where it is that of an MCP server and nobody named it; path, where it was given
	OriginRef   string `json:"origin_ref,omitempty"`  // what of git it had checked out: BRANCH@COMMIT, or COMMIT
	Files       int    `json:"files"`                 // that it had
	Directories int    `json:"directories"`           //
	Symlinks    int    `json:"symlinks"`              //
	Skipped     int    `json:"skipped"`               // devices, pipes and sockets, which are left out
	Ignored     int    `json:"ignored"`               // files and folders that git ignores, which are left out; a folder counts as one
	Bytes       int64  `json:"bytes"`                 // of all files
	ForkedFrom  string `json:"forked_from,omitempty"` // the workspace that it is a fork of, whose seed this is
}

// WorkspaceSummary is a row of a list.
type WorkspaceSummary struct {
	WorkspaceID    string            `json:"workspace_id"`
	Name           string            `json:"name"`
	Labels         map[string]string `json:"labels"`
	Environment    string            `json:"environment"`
	Isolation      Isolation         `json:"isolation"`
	State          WorkspaceState    `json:"state"`
	StateReason    string            `json:"state_reason,omitempty"`
	CreatedAt      time.Time         `json:"created_at"`
	LastActivityAt time.Time         `json:"last_activity_at"`
	ExpiresAt      *time.Time        `json:"expires_at"`
	CommandCount   int               `json:"command_count"`
	ServiceCount   int               `json:"service_count"`
	RunningCount   int               `json:"running_service_count"`
}

// CreateWorkspaceRequest says what workspace to make. Only Environment has to be set.
type CreateWorkspaceRequest struct {
	Environment    string            `json:"environment"`               // such as debian:12, or an OCI reference
	SeedPath       string            `json:"seed_path,omitempty"`       // a folder of the host, or a .tar, .tar.gz or .tgz archive, to fill /workspace with
	IncludeIgnored bool              `json:"include_ignored,omitempty"` // of a SeedPath in a git checkout also what git ignores
	Name           string            `json:"name,omitempty"`            // for people
	Labels         map[string]string `json:"labels,omitempty"`          // for people
	VCPUCount      int               `json:"vcpu_count,omitempty"`      // as for RunInVM
	MemMiB         int               `json:"mem_mib,omitempty"`         // as for RunInVM
	DiskMiB        int               `json:"disk_mib,omitempty"`        // size of /workspace, MinDiskMiB to MaxDiskMiB; default DefaultDiskMiB
	TTLSeconds     int               `json:"ttl_seconds,omitempty"`     // it is stopped, not deleted, when nothing was done with it for so long; default DefaultTTLSeconds

	// AutoPauseSeconds has it be paused when nothing was done with it for so long, though programs may run in it; 0: never.
	AutoPauseSeconds int `json:"auto_pause_seconds,omitempty"`

	NetworkPolicy NetworkPolicy `json:"network_policy,omitempty"` // default NetworkOff
	EgressAllow   []string      `json:"egress_allow,omitempty"`   // what alone it may reach: addresses, ranges, names and *.NAME, each with :PORT or not
	EgressDeny    []string      `json:"egress_deny,omitempty"`    // what it may not reach, written likewise

	Secrets []Secret `json:"secrets,omitempty"` // that its programs can be given, see SecretEnv of ExecWorkspace and OpenShell

	Isolation       Isolation `json:"isolation,omitempty"`         // as for RunInVM; it stays the same for as long as the workspace is there
	AllowHostCompat bool      `json:"allow_host_compat,omitempty"` // where no machine can be started, work on the host, isolated by nothing

	Progress ProgressFunc `json:"-"`

	fromProject bool // SeedPath is the project of an MCP server, and nobody gave it
}

// CreateWorkspace makes a workspace, fills it and starts it. When it fails or is cancelled nothing of it is left.
func (p *Pyro) CreateWorkspace(ctx context.Context, req CreateWorkspaceRequest) (*Workspace, error) {
	if req.Environment == "" {
		return nil, invalid("environment is missing").WithHint("%s", toListEnvironments)
	}
	if err := completeMachine(&req.VCPUCount, &req.MemMiB, &req.TTLSeconds, &req.Isolation); err != nil {
		return nil, err
	}
	if err := completeNumber("disk_mib", &req.DiskMiB, DefaultDiskMiB, MinDiskMiB, MaxDiskMiB); err != nil {
		return nil, err
	}
	if err := completeNetwork(&req.NetworkPolicy, req.EgressAllow, req.EgressDeny); err != nil {
		return nil, err
	}
	if err := p.known(ctx, req.Environment); err != nil {
		return nil, err
	}
	secrets, err := secretsOf(req.Secrets)
	if err != nil {
		return nil, err
	}
	w, err := p.workspaces.Create(ctx, workspace.Spec{
		Kind: store.KindWorkspace, Environment: req.Environment, Isolation: machine.Isolation(req.Isolation), AllowHost: req.AllowHostCompat,
		VCPUCount: req.VCPUCount, MemMiB: req.MemMiB, DiskMiB: req.DiskMiB, TTLSeconds: req.TTLSeconds, AutoPause: req.AutoPauseSeconds, Network: string(req.NetworkPolicy), Name: req.Name, Labels: req.Labels,
		Egress: store.Egress{Allow: req.EgressAllow, Deny: req.EgressDeny}, SeedPath: req.SeedPath, FromProject: req.fromProject, IncludeIgnored: req.IncludeIgnored, Secrets: secrets, Progress: req.Progress.adapt(),
	})
	return workspaceOf(ctx, w, err)
}

// WorkspaceStates are those that a workspace can be in.
var WorkspaceStates = []WorkspaceState{StateStarted, StateStopped, StatePaused, StateDamaged}

// WorkspaceFilter says which workspaces to list. The zero value lists all.
type WorkspaceFilter struct {
	Labels map[string]string `json:"labels,omitempty"` // those that have all of these
	State  WorkspaceState    `json:"state,omitempty"`  // those in this state
}

func (f WorkspaceFilter) check() error {
	if f.State != "" && !slices.Contains(WorkspaceStates, f.State) {
		return invalid("state is %q: it must be %s, %s, %s or %s", f.State, StateStarted, StateStopped, StatePaused, StateDamaged)
	}
	return nil
}

func (f WorkspaceFilter) has(w *Workspace) bool {
	for key, value := range f.Labels {
		if is, ok := w.Labels[key]; !ok || is != value {
			return false
		}
	}
	return f.State == "" || f.State == w.State
}

// ListWorkspaces gives the workspaces that all filters have, the one that something was last done
// with first.
func (p *Pyro) ListWorkspaces(ctx context.Context, filters ...WorkspaceFilter) ([]WorkspaceSummary, error) {
	for _, f := range filters {
		if err := f.check(); err != nil {
			return nil, err
		}
	}
	found, err := p.workspaces.List(ctx, store.KindWorkspace)
	if err != nil {
		return nil, because(ctx, err)
	}
	all := make([]WorkspaceSummary, 0, len(found))
	for _, w := range found {
		full := newWorkspace(w)
		if slices.ContainsFunc(filters, func(f WorkspaceFilter) bool { return !f.has(full) }) {
			continue
		}
		all = append(all, WorkspaceSummary{
			full.WorkspaceID, full.Name, full.Labels, full.Environment, full.Isolation, full.State, full.StateReason,
			full.CreatedAt, full.LastActivityAt, full.ExpiresAt, full.CommandCount, full.ServiceCount, full.RunningCount,
		})
	}
	return all, nil
}

// StatusWorkspace tells what a workspace is now.
func (p *Pyro) StatusWorkspace(ctx context.Context, id string) (*Workspace, error) {
	if err := p.named(ctx, &id); err != nil {
		return nil, err
	}
	w, err := p.workspaces.Get(ctx, store.KindWorkspace, id)
	return workspaceOf(ctx, w, err)
}

// UpdateWorkspaceRequest says what of a workspace's name and labels to change.
type UpdateWorkspaceRequest struct {
	WorkspaceID string            `json:"workspace_id"`
	Name        *string           `json:"name,omitempty"`
	ClearName   bool              `json:"clear_name,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`       // to set; others stay
	ClearLabels []string          `json:"clear_labels,omitempty"` // keys to remove
}

// UpdateWorkspace changes what a workspace is called, and nothing else.
func (p *Pyro) UpdateWorkspace(ctx context.Context, req UpdateWorkspaceRequest) (*Workspace, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	w, err := p.workspaces.Update(ctx, req.WorkspaceID, workspace.Update{
		Name: req.Name, ClearName: req.ClearName, Labels: req.Labels, ClearLabels: req.ClearLabels,
	})
	return workspaceOf(ctx, w, err)
}

// StartWorkspaceRequest says what workspace to start.
type StartWorkspaceRequest struct {
	WorkspaceID string       `json:"workspace_id"`
	Progress    ProgressFunc `json:"-"`
}

// StartWorkspace starts a workspace that is stopped, with its /workspace, its root, snapshots and history as they were. One that runs is left as it is.
func (p *Pyro) StartWorkspace(ctx context.Context, req StartWorkspaceRequest) (*Workspace, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	w, err := p.workspaces.Start(ctx, store.KindWorkspace, req.WorkspaceID, req.Progress.adapt())
	return workspaceOf(ctx, w, err)
}

// StopWorkspace stops a workspace: what runs in it is killed, its disks are flushed and unmounted. One that is stopped is left as it is.
func (p *Pyro) StopWorkspace(ctx context.Context, id string) (*Workspace, error) {
	if err := p.named(ctx, &id); err != nil {
		return nil, err
	}
	w, err := p.workspaces.Stop(ctx, store.KindWorkspace, id)
	return workspaceOf(ctx, w, err)
}

// PauseWorkspace writes down the machine of a workspace that runs, with all that runs in it, and ends it: it takes no memory of the host's any more. What is done next
// with it has it go on. One that is paused is left as it is. With an error it runs as before.
func (p *Pyro) PauseWorkspace(ctx context.Context, id string) (*Workspace, error) {
	if err := p.named(ctx, &id); err != nil {
		return nil, err
	}
	w, err := p.workspaces.Pause(ctx, store.KindWorkspace, id)
	return workspaceOf(ctx, w, err)
}

// ResumeWorkspaceRequest says what workspace is to go on.
type ResumeWorkspaceRequest struct {
	WorkspaceID string       `json:"workspace_id"`
	Progress    ProgressFunc `json:"-"`
}

// ResumeWorkspace has a workspace go on that is paused. One that runs is left as it is; it is an error where it is stopped.
func (p *Pyro) ResumeWorkspace(ctx context.Context, req ResumeWorkspaceRequest) (*Workspace, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	w, err := p.workspaces.Resume(ctx, store.KindWorkspace, req.WorkspaceID, req.Progress.adapt())
	return workspaceOf(ctx, w, err)
}

// DeletedWorkspace tells that a workspace is gone.
type DeletedWorkspace struct {
	WorkspaceID string `json:"workspace_id"`
	Deleted     bool   `json:"deleted"`
}

// DeleteWorkspace removes a workspace with all that it holds, whatever state it is in.
func (p *Pyro) DeleteWorkspace(ctx context.Context, id string) (*DeletedWorkspace, error) {
	if err := p.named(ctx, &id); err != nil {
		return nil, err
	}
	if err := p.workspaces.Delete(ctx, store.KindWorkspace, id); err != nil {
		return nil, because(ctx, err)
	}
	return &DeletedWorkspace{id, true}, nil
}

// workspaceOf gives the result of an operation on a workspace.
func workspaceOf(ctx context.Context, w workspace.Workspace, err error) (*Workspace, error) {
	if err != nil {
		return nil, because(ctx, err)
	}
	return newWorkspace(w), nil
}

func newWorkspace(w workspace.Workspace) *Workspace {
	s := w.Spec
	r := &Workspace{
		WorkspaceID: w.ID, Name: w.Name, Labels: w.Labels, State: WorkspaceState(w.State), StateReason: w.StateReason,
		Environment: s.Environment, WorkspacePath: WorkspacePath, Isolation: Isolation(s.Isolation), NetworkPolicy: NetworkPolicy(s.Network), Network: networkOf(w),
		VCPUCount: s.VCPUCount, MemMiB: s.MemMiB, DiskMiB: s.Disk(), TTLSeconds: s.TTLSeconds, AutoPauseSeconds: s.AutoPause,
		WorkspaceSeed: WorkspaceSeed{
			Mode: s.Seed.Mode, SeedPath: s.Seed.Path, OriginKind: s.Seed.OriginKind, OriginRef: s.Seed.OriginRef, Files: s.Seed.Files, Directories: s.Seed.Directories,
			Symlinks: s.Seed.Symlinks, Skipped: s.Seed.Skipped, Ignored: s.Seed.Ignored, Bytes: s.Seed.Bytes, ForkedFrom: s.Seed.Fork,
		},
		Secrets:   secretInfos(s.Secrets),
		CreatedAt: w.CreatedAt, LastActivityAt: w.LastActivityAt, CommandCount: w.CommandCount, ServiceCount: w.ServiceCount, ResetCount: w.ResetCount,
		LastResetAt: moment(w.LastResetAt),
	}
	if w.State == workspace.Started {
		r.RunningCount = w.OpenServiceCount
	}
	if r.Labels == nil {
		r.Labels = map[string]string{}
	}
	if w.State == workspace.Started || w.Kind == store.KindVM {
		r.ExpiresAt = moment(w.ExpiresAt)
	}
	r.ExecutionMode, r.HostCompatReason, r.EmulatedReason = modeOf(s)
	return r
}

// modeOf tells where commands run, and why not behind more.
func modeOf(s store.Spec) (mode ExecutionMode, hostCompat, emulated string) {
	if Isolation(s.Isolation) == IsolationNone {
		return HostCompat, s.Reason, ""
	}
	return Guest, "", s.Reason
}

// moment is a time as a result has it: null where there is none.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// required refuses a request without what it is about.
func required(name, value string) error {
	if value == "" {
		return fault.Newf(Invalid, "%s is missing", name)
	}
	return nil
}
