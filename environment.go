package pyro

import (
	"context"
	"errors"
	"time"

	"github.com/pyro-mcp/pyro/internal/environment"
)

// Environment is an image for machines. It is either an entry of the catalogue, installed or not,
// or another installed image.
type Environment struct {
	Name           string    `json:"name"` // such as debian:12, or a full OCI reference.
	Description    string    `json:"description,omitempty"`
	Source         string    `json:"source"`           // debian: built from Debian packages; oci: pulled from a registry.
	Digest         string    `json:"digest,omitempty"` // digest of the content: "sha256:…"
	Installed      bool      `json:"installed"`        // if false, the first use of the environment installs it
	InstalledAt    time.Time `json:"installed_at,omitzero"`
	LastUsedAt     time.Time `json:"last_used_at,omitzero"`        // last start of a machine from it, or last read of a workspace's disk; zero if unknown
	SizeBytes      int64     `json:"size_bytes,omitempty"`         // size on the host's disk.
	VirtualSize    int64     `json:"virtual_size_bytes,omitempty"` // size of the machine's disk.
	Packages       []string  `json:"packages,omitempty"`           // packages of a catalogue entry.
	Env            []string  `json:"env,omitempty"`                // variables for every command, as NAME=VALUE.
	User           string    `json:"user,omitempty"`               // user of commands: a name or number, optionally with :group; empty: root.
	WorkDir        string    `json:"work_dir,omitempty"`           // working directory of commands; empty: the user's home.
	Entrypoint     []string  `json:"entrypoint,omitempty"`         // first words of the image's own command: see RunInVMRequest.
	Cmd            []string  `json:"cmd,omitempty"`                // further words of the image's own command.
	Reference      string    `json:"reference,omitempty"`          // reference of an OCI image, as requested.
	ManifestDigest string    `json:"manifest_digest,omitempty"`    // digest of the manifest of an OCI image for this architecture
}

// ListEnvironments returns the catalogue and all installed environments, sorted by name.
func (p *Pyro) ListEnvironments(ctx context.Context) ([]Environment, error) {
	found, err := p.workspaces.Environments.List(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]Environment, 0, len(found))
	for _, e := range found {
		all = append(all, Environment(e))
	}
	return all, nil
}

// InspectEnvironment describes an environment of the catalogue, or an installed environment. For
// other names, it fails with kind NotFound and suggests similar names.
func (p *Pyro) InspectEnvironment(ctx context.Context, name string) (*Environment, error) {
	found, err := p.workspaces.Environments.Inspect(ctx, name)
	if err != nil {
		return nil, err
	}
	e := Environment(found)
	return &e, nil
}

// PullEnvironmentRequest contains the parameters of [Pyro.PullEnvironment].
type PullEnvironmentRequest struct {
	Environment string `json:"environment"`     // a name from the catalogue, or an OCI reference.
	Force       bool   `json:"force,omitempty"` // install it again, even if it is installed

	Progress ProgressFunc `json:"-"`
}

// PullEnvironment installs an environment. If the environment is already installed, PullEnvironment
// checks it and repairs any damage.
func (p *Pyro) PullEnvironment(ctx context.Context, req PullEnvironmentRequest) (*Environment, error) {
	if req.Environment == "" {
		return nil, invalid("environment is missing").WithHint("%s", toListEnvironments)
	}
	found, err := p.workspaces.Environments.Pull(ctx, req.Environment, req.Force, req.Progress.adapt())
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	e := Environment(found)
	return &e, nil
}

// known returns an error if no environment can have the name: an invalid reference, or a misspelled
// name of the catalogue. It reads at most one small file, so that mistakes are reported before long
// preparations.
func (p *Pyro) known(ctx context.Context, name string) error {
	_, err := p.workspaces.Environments.Inspect(ctx, name)
	if errors.Is(err, environment.ErrNotInstalled) {
		return nil
	}
	return err
}
