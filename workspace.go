package pyro

import (
	"context"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// WorkspacePath is the path at which commands find the workspace's files.
const WorkspacePath = workspace.Path

// WorkspaceState is the state of a workspace or a machine.
type WorkspaceState string

// The states of workspaces and machines.
const (
	StateCreated = WorkspaceState(workspace.Created) // a machine that has not been started
	StateStarted = WorkspaceState(workspace.Started)
	StateStopped = WorkspaceState(workspace.Stopped)
	StatePaused  = WorkspaceState(workspace.Paused)  // its state is saved and it uses no memory; the next operation resumes it
	StateDamaged = WorkspaceState(workspace.Damaged) // some of its files are missing; it can only be deleted
)

// Workspace describes a workspace at the time of the call that returned it. It is also a handle:
// its methods operate on the workspace.
type Workspace struct {
	WorkspaceID string            `json:"workspace_id"`
	Name        string            `json:"name"`   // name for people; empty if there is none
	Labels      map[string]string `json:"labels"` // for people

	State       WorkspaceState `json:"state"`
	StateReason string         `json:"state_reason,omitempty"` // why it is stopped or damaged

	Environment      string        `json:"environment"`
	WorkspacePath    string        `json:"workspace_path"` // always the constant WorkspacePath
	ExecutionMode    ExecutionMode `json:"execution_mode"`
	Isolation        Isolation     `json:"isolation"`
	HostCompatReason string        `json:"host_compat_reason,omitempty"` // why no machine could be started, if ExecutionMode is HostCompat
	EmulatedReason   string        `json:"emulated_reason,omitempty"`    // why only an emulated machine was possible
	NetworkPolicy    NetworkPolicy `json:"network_policy"`
	Network          *NetworkInfo  `json:"network"` // nil if the policy is NetworkOff

	// AppliesAtNextStart names the fields of this struct that the machine does not have yet. These
	// fields were changed while it ran or was paused. It gets them when the workspace is stopped
	// and starts again. The names are vcpu_count, mem_mib and network_policy.
	AppliesAtNextStart []string `json:"applies_at_next_start,omitempty"`

	VCPUCount        int           `json:"vcpu_count"`
	MemMiB           int           `json:"mem_mib"`
	DiskMiB          int           `json:"disk_mib"` // size of the disk at WorkspacePath; not enforced with IsolationNone
	TTLSeconds       int           `json:"ttl_seconds"`
	AutoPauseSeconds int           `json:"auto_pause_seconds,omitempty"`
	WorkspaceSeed    WorkspaceSeed `json:"workspace_seed"`
	Secrets          []SecretInfo  `json:"secrets"` // sorted by name

	CreatedAt      time.Time  `json:"created_at"`
	LastActivityAt time.Time  `json:"last_activity_at"`
	ExpiresAt      *time.Time `json:"expires_at"` // when it will stop unless it is used before; nil if it does not run
	CommandCount   int        `json:"command_count"`
	ServiceCount   int        `json:"service_count"` // services started since creation or the last reset
	RunningCount   int        `json:"running_service_count"`
	ResetCount     int        `json:"reset_count"`
	LastResetAt    *time.Time `json:"last_reset_at"` // nil if it was never reset

	pyro *Pyro // used by the methods
}

// WorkspaceSeed describes the initial files of a workspace.
type WorkspaceSeed struct {
	Mode        string `json:"mode"`                  // empty, directory or archive
	SeedPath    string `json:"seed_path,omitempty"`   // path on the host.
	OriginKind  string `json:"origin_kind,omitempty"` // project: the project of the MCP server; path: a path from the caller.
	OriginRef   string `json:"origin_ref,omitempty"`  // revision of the git checkout: BRANCH@COMMIT or COMMIT.
	Files       int    `json:"files"`                 // number of files.
	Directories int    `json:"directories"`
	Symlinks    int    `json:"symlinks"`
	Skipped     int    `json:"skipped"`               // number of omitted devices, pipes and sockets.
	Ignored     int    `json:"ignored"`               // number of omitted files and folders that git ignores; a folder counts as one.
	Bytes       int64  `json:"bytes"`                 // total size of the files.
	GitMissing  string `json:"git_missing,omitempty"` // why git can't work in the copy of a checkout, and how to help.
	ForkedFrom  string `json:"forked_from,omitempty"` // set for a fork: the source workspace. The other fields then describe the seed of the source.
}

// WorkspaceSummary describes a workspace in a list.
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

// CreateWorkspaceRequest describes a new workspace. Only Environment is required.
type CreateWorkspaceRequest struct {
	Environment    string            `json:"environment"`               // such as debian:12, or an OCI reference.
	SeedPath       string            `json:"seed_path,omitempty"`       // path on the host: a folder, or a .tar, .tar.gz or .tgz archive, with the initial files.
	IncludeIgnored bool              `json:"include_ignored,omitempty"` // also copy files that git ignores.
	Name           string            `json:"name,omitempty"`            // for people.
	Labels         map[string]string `json:"labels,omitempty"`          // for people.
	VCPUCount      int               `json:"vcpu_count,omitempty"`      // as in RunInVMRequest.
	MemMiB         int               `json:"mem_mib,omitempty"`         // as in RunInVMRequest.
	DiskMiB        int               `json:"disk_mib,omitempty"`        // size of /workspace, MinDiskMiB to MaxDiskMiB; default DefaultDiskMiB
	TTLSeconds     int               `json:"ttl_seconds,omitempty"`     // time without use after which it is stopped, but not deleted; default DefaultTTLSeconds

	// AutoPauseSeconds is the time without use after which the workspace is paused, even if
	// programs run in it. If it is 0, the workspace is never paused automatically.
	AutoPauseSeconds int `json:"auto_pause_seconds,omitempty"`

	NetworkPolicy NetworkPolicy `json:"network_policy,omitempty"` // default NetworkOff
	EgressAllow   []string      `json:"egress_allow,omitempty"`   // the only allowed targets: addresses, address ranges, names or *.NAME, each optionally with :PORT
	EgressDeny    []string      `json:"egress_deny,omitempty"`    // forbidden targets, in the same form

	// HostNetworkSettings gives the machine the network settings of this host: proxies, CA
	// certificates, and mirrors of apt, Go, npm and pip. Without another network policy, the
	// machine reaches only what these settings need. See Pyro.HostNetworkSettings.
	HostNetworkSettings bool `json:"host_network_settings,omitempty"`
	// HostNetworkCredentials names the passwords and tokens inside these settings that the machine
	// gets too.
	HostNetworkCredentials []string `json:"host_network_credentials,omitempty"`

	Secrets []Secret `json:"secrets,omitempty"` // secrets for its programs; see ExecWorkspaceRequest.SecretEnv

	Isolation       Isolation `json:"isolation,omitempty"`         // as in RunInVMRequest; the level that was chosen never changes
	AllowHostCompat bool      `json:"allow_host_compat,omitempty"` // if no machine can be started, work on the host without isolation

	Progress ProgressFunc `json:"-"`

	FromProject bool `json:"-"` // SeedPath is the project of an MCP server, not a path from the caller; see WorkspaceSeed.OriginKind
}

// CreateWorkspace creates a workspace, copies the initial files into it and starts it. If
// CreateWorkspace fails or is canceled, it removes everything that it created.
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
	network, err := networkRequest{
		req.NetworkPolicy, req.EgressAllow, req.EgressDeny, req.HostNetworkSettings, req.HostNetworkCredentials,
	}.plan()
	if err != nil {
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
		VCPUCount: req.VCPUCount, MemMiB: req.MemMiB, DiskMiB: req.DiskMiB, TTLSeconds: req.TTLSeconds, AutoPause: req.AutoPauseSeconds, Network: string(network.policy), Name: req.Name, Labels: req.Labels,
		Egress: network.egress, HostNetwork: network.host, Credentials: network.credentials, SeedPath: req.SeedPath, FromProject: req.FromProject, IncludeIgnored: req.IncludeIgnored, Secrets: secrets, Progress: req.Progress.adapt(),
	})
	return p.workspaceOf(ctx, w, err)
}

// StatusWorkspace describes a workspace.
func (p *Pyro) StatusWorkspace(ctx context.Context, id string) (*Workspace, error) {
	if err := p.named(ctx, &id); err != nil {
		return nil, err
	}
	w, err := p.workspaces.Get(ctx, store.KindWorkspace, id)
	return p.workspaceOf(ctx, w, err)
}

// StartWorkspaceRequest names the workspace to start.
type StartWorkspaceRequest struct {
	WorkspaceID string       `json:"workspace_id"`
	Progress    ProgressFunc `json:"-"`
}

// StartWorkspace starts a stopped workspace. Its files, root disk, snapshots and history do not
// change. StartWorkspace does nothing if the workspace runs.
func (p *Pyro) StartWorkspace(ctx context.Context, req StartWorkspaceRequest) (*Workspace, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	w, err := p.workspaces.Start(ctx, store.KindWorkspace, req.WorkspaceID, req.Progress.adapt())
	return p.workspaceOf(ctx, w, err)
}

// StopWorkspace stops a workspace: it kills the programs, then flushes and unmounts the disks. It
// does nothing if the workspace is already stopped.
func (p *Pyro) StopWorkspace(ctx context.Context, id string) (*Workspace, error) {
	if err := p.named(ctx, &id); err != nil {
		return nil, err
	}
	w, err := p.workspaces.Stop(ctx, store.KindWorkspace, id)
	return p.workspaceOf(ctx, w, err)
}

// PauseWorkspace saves the machine of a workspace, with its running programs, to disk. Then it
// stops the machine to free the machine's memory. The next operation on the workspace resumes the
// machine. PauseWorkspace does nothing if the workspace is already paused. If PauseWorkspace fails,
// the workspace keeps running.
func (p *Pyro) PauseWorkspace(ctx context.Context, id string) (*Workspace, error) {
	if err := p.named(ctx, &id); err != nil {
		return nil, err
	}
	w, err := p.workspaces.Pause(ctx, store.KindWorkspace, id)
	return p.workspaceOf(ctx, w, err)
}

// ResumeWorkspaceRequest names the workspace to resume.
type ResumeWorkspaceRequest struct {
	WorkspaceID string       `json:"workspace_id"`
	Progress    ProgressFunc `json:"-"`
}

// ResumeWorkspace resumes a paused workspace. It does nothing if the workspace runs, and fails if
// the workspace is stopped.
func (p *Pyro) ResumeWorkspace(ctx context.Context, req ResumeWorkspaceRequest) (*Workspace, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	w, err := p.workspaces.Resume(ctx, store.KindWorkspace, req.WorkspaceID, req.Progress.adapt())
	return p.workspaceOf(ctx, w, err)
}

// DeletedWorkspace names a workspace that was deleted.
type DeletedWorkspace struct {
	WorkspaceID string `json:"workspace_id"`
	Deleted     bool   `json:"deleted"`
}

// DeleteWorkspace deletes a workspace with everything in it. The workspace can be in any state.
func (p *Pyro) DeleteWorkspace(ctx context.Context, id string) (*DeletedWorkspace, error) {
	if err := p.named(ctx, &id); err != nil {
		return nil, err
	}
	if err := p.workspaces.Delete(ctx, store.KindWorkspace, id); err != nil {
		return nil, causeOf(ctx, err)
	}
	return &DeletedWorkspace{id, true}, nil
}

// workspaceOf converts the outcome of an operation on a workspace to a result.
func (p *Pyro) workspaceOf(ctx context.Context, w workspace.Workspace, err error) (*Workspace, error) {
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	return p.newWorkspace(w), nil
}

func (p *Pyro) newWorkspace(w workspace.Workspace) *Workspace {
	s := w.Spec
	r := &Workspace{
		pyro: p, WorkspaceID: w.ID, Name: w.Name, Labels: w.Labels, State: WorkspaceState(w.State), StateReason: w.StateReason,
		Environment: s.Environment, WorkspacePath: WorkspacePath, Isolation: Isolation(s.Isolation), NetworkPolicy: NetworkPolicy(s.Network), Network: networkOf(w), AppliesAtNextStart: w.Waiting(),
		VCPUCount: s.VCPUCount, MemMiB: s.MemMiB, DiskMiB: s.Disk(), TTLSeconds: s.TTLSeconds, AutoPauseSeconds: s.AutoPause,
		WorkspaceSeed: WorkspaceSeed{
			Mode: s.Seed.Mode, SeedPath: s.Seed.Path, OriginKind: s.Seed.OriginKind, OriginRef: s.Seed.OriginRef, Files: s.Seed.Files, Directories: s.Seed.Directories,
			Symlinks: s.Seed.Symlinks, Skipped: s.Seed.Skipped, Ignored: s.Seed.Ignored, Bytes: s.Seed.Bytes, GitMissing: s.Seed.GitMissing, ForkedFrom: s.Seed.Fork,
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

// modeOf returns the execution mode, and why pyro did not use stronger isolation.
func modeOf(s store.Spec) (mode ExecutionMode, hostCompat, emulated string) {
	if Isolation(s.Isolation) == IsolationNone {
		return HostCompat, s.Reason, ""
	}
	return Guest, "", s.Reason
}

// moment returns a pointer to t, or nil if t is zero.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// required returns an error if the value of a required field is empty.
func required(name, value string) error {
	if value == "" {
		return fault.Newf(Invalid, "%s is missing", name)
	}
	return nil
}
