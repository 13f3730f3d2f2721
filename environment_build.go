package pyro

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/pyro-mcp/pyro/internal/build"
	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// DefaultBuildMemMiB is the default memory of the machines of a build.
const DefaultBuildMemMiB = 2048

// BuildEnvironmentRequest describes the build of an environment from a Dockerfile. Name and
// ContextPath are required.
type BuildEnvironmentRequest struct {
	Name        string            `json:"name"`                 // name of the environment, such as tool:1
	ContextPath string            `json:"context_path"`         // folder on the host that COPY copies from
	Dockerfile  string            `json:"dockerfile,omitempty"` // path of the Dockerfile on the host; default: Dockerfile in the context
	Target      string            `json:"target,omitempty"`     // stage to build; default: the last one
	BuildArgs   map[string]string `json:"build_args,omitempty"` // values for ARG
	Secrets     []Secret          `json:"secrets,omitempty"`    // For RUN --mount=type=secret. Name is the id.
	NoCache     bool              `json:"no_cache,omitempty"`   // run every step again

	VCPUCount int       `json:"vcpu_count,omitempty"` // default: the number of the host's processors
	MemMiB    int       `json:"mem_mib,omitempty"`    // default DefaultBuildMemMiB
	Isolation Isolation `json:"isolation,omitempty"`  // as in RunInVMRequest, but never host_compat

	Network     bool     `json:"network,omitempty"`      // as in RunInVMRequest
	EgressAllow []string `json:"egress_allow,omitempty"` // as in CreateWorkspaceRequest
	EgressDeny  []string `json:"egress_deny,omitempty"`

	HostNetworkSettings    bool     `json:"host_network_settings,omitempty"`    // as in CreateWorkspaceRequest
	HostNetworkCredentials []string `json:"host_network_credentials,omitempty"` // as in CreateWorkspaceRequest

	// Events receives the progress of the steps, one event at a time. It can be nil.
	Events func(BuildEvent) `json:"-"`
	// Progress receives reports about preparations, such as the pull of a base. If Events is nil,
	// Progress also receives the start of each step.
	Progress ProgressFunc `json:"-"`
}

// BuildEvent reports the progress of a build.
type BuildEvent = build.Event

// BuildStatus is the outcome of a step of a build.
type BuildStatus = build.Status

// These are the statuses of a step.
const (
	BuildStarted = build.Started
	BuildPrinted = build.Printed // the step printed the line Text.
	BuildCached  = build.Cached  // an earlier build has done this step
	BuildDone    = build.Done
	BuildFailed  = build.Failed // Text contains the cause
)

// BuildEnvironment builds an environment from a Dockerfile. Its steps run in machines. Later builds
// reuse the results of finished steps, even if this build fails.
//
// Invalid: the Dockerfile has an error. Unsupported: pyro can't build it. Precondition: a step
// failed. These errors name the line of the Dockerfile.
func (p *Pyro) BuildEnvironment(ctx context.Context, req BuildEnvironmentRequest) (*Environment, error) {
	r, err := req.complete()
	if err != nil {
		return nil, err
	}
	made, err := build.Run(ctx, p.workspaces, *r)
	if err != nil {
		return nil, causeOf(ctx, fault.Wrap(err, "build environment", req.Name))
	}
	e := Environment(made)
	return &e, nil
}

// complete checks a request, and reads the Dockerfile and the secrets.
func (r *BuildEnvironmentRequest) complete() (*build.Request, error) {
	name, err := newName(r.Name)
	if err != nil {
		return nil, err
	}
	if r.ContextPath == "" {
		return nil, invalid("context_path is missing")
	}
	ttl := DefaultTTLSeconds
	if r.VCPUCount == 0 {
		r.VCPUCount = min(runtime.NumCPU(), MaxVCPUCount)
	}
	if r.MemMiB == 0 {
		r.MemMiB = min(DefaultBuildMemMiB, hostMemMiB())
	}
	if err := completeMachine(&r.VCPUCount, &r.MemMiB, &ttl, &r.Isolation); err != nil {
		return nil, err
	}
	request, err := vmNetwork(r.Network, networkRequest{allow: r.EgressAllow, deny: r.EgressDeny, host: r.HostNetworkSettings, credentials: r.HostNetworkCredentials})
	if err != nil {
		return nil, err
	}
	network, err := request.plan()
	if err != nil {
		return nil, err
	}
	file := r.Dockerfile
	if file == "" {
		file = filepath.Join(r.ContextPath, "Dockerfile")
	}
	text, err := readDockerfile(file)
	if err != nil {
		return nil, fault.Wrap(err, "read", file)
	}
	secrets, err := buildSecrets(r.Secrets)
	if err != nil {
		return nil, err
	}
	return &build.Request{
		Name: name, Dockerfile: text, File: file, Context: r.ContextPath, Target: r.Target, Args: r.BuildArgs, Secrets: secrets, NoCache: r.NoCache,
		Isolation: machine.Isolation(r.Isolation), VCPUs: r.VCPUCount, MemMiB: r.MemMiB,
		Network: network.policy != NetworkOff, Egress: network.egress, HostNetwork: network.host, Credentials: network.credentials.Env(),
		Events: r.Events, Progress: r.Progress.adapt(),
	}, nil
}

func newName(name string) (string, error) {
	if name == "" {
		return "", invalid("name is missing")
	}
	return environment.NewName(name)
}

func readDockerfile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, build.MaxDockerfile+1))
	if err == nil && len(text) > build.MaxDockerfile {
		err = invalid("it has more than %d KiB", build.MaxDockerfile>>10)
	}
	return text, err
}

// buildSecrets reads the secrets of a build. Unlike the names of a workspace's secrets, these names
// can contain any character.
func buildSecrets(all []Secret) (map[string]secret.Value, error) {
	read := map[string]secret.Value{}
	for _, s := range all {
		switch {
		case s.Name == "":
			return nil, invalid("a secret has no name")
		case s.FilePath != "" && !s.Value.IsZero():
			return nil, invalid("secret %s has both a value and a file", s.Name)
		}
		value := s.Value
		if s.FilePath != "" {
			var err error
			if value, err = readSecret(s.FilePath); err != nil {
				return nil, fault.Wrap(err, "read secret "+s.Name+" from", s.FilePath)
			}
		}
		read[s.Name] = value
	}
	return read, nil
}

// CommitWorkspaceRequest contains the parameters of [Pyro.CommitWorkspace]. WorkspaceID and Name
// are required.
type CommitWorkspaceRequest struct {
	WorkspaceID   string `json:"workspace_id"`
	Name          string `json:"name"`                     // name of the environment, such as tool:1
	OmitWorkspace bool   `json:"omit_workspace,omitempty"` // leave out the files of /workspace

	Progress ProgressFunc `json:"-"`
}

// CommitWorkspace creates an environment from the files of a workspace: the files of its
// environment with all changes, and its files in /workspace. A new workspace of this environment
// begins with these files in /workspace, unless it has a seed. The environment contains no running
// programs. The workspace does not change.
func (p *Pyro) CommitWorkspace(ctx context.Context, req CommitWorkspaceRequest) (*Environment, error) {
	name, err := newName(req.Name)
	if err != nil {
		return nil, err
	}
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	made, err := p.workspaces.Commit(ctx, workspace.Commit{ID: req.WorkspaceID, Name: name, OmitWorkspace: req.OmitWorkspace, Progress: req.Progress.adapt()})
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	e := Environment(made)
	return &e, nil
}
