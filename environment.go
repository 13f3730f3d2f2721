package pyro

import (
	"context"
	"time"
)

// Environment is an image that machines start from: one of the catalogue, whether it is installed or not, or any other that is installed.
type Environment struct {
	Name           string    `json:"name"` // such as debian:12, or an OCI reference in full
	Description    string    `json:"description,omitempty"`
	Source         string    `json:"source"`           // debian: built from Debian's packages; oci: pulled from a registry
	Digest         string    `json:"digest,omitempty"` // of the image's content, "sha256:…"
	Installed      bool      `json:"installed"`        // if not, its first use installs it
	InstalledAt    time.Time `json:"installed_at,omitzero"`
	SizeBytes      int64     `json:"size_bytes,omitempty"`         // that it takes on the host's disk
	VirtualSize    int64     `json:"virtual_size_bytes,omitempty"` // of the disk that a machine sees
	Packages       []string  `json:"packages,omitempty"`           // of one of the catalogue
	Env            []string  `json:"env,omitempty"`                // NAME=VALUE, for every command
	User           string    `json:"user,omitempty"`               // that commands run as: name or number, optionally :group; empty: root
	WorkDir        string    `json:"work_dir,omitempty"`           // that commands start in; empty: the user's home
	Reference      string    `json:"reference,omitempty"`          // of an OCI image, as it was asked for
	ManifestDigest string    `json:"manifest_digest,omitempty"`    // of an OCI image for this architecture
}

// ListEnvironments gives the catalogue and all that is installed, by name.
func (p *Pyro) ListEnvironments(ctx context.Context) ([]Environment, error) {
	found, err := p.store.List(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]Environment, 0, len(found))
	for _, e := range found {
		all = append(all, Environment(e))
	}
	return all, nil
}

// InspectEnvironment describes one environment of the catalogue, or one that is installed. Kind NotFound for any other, naming those that are near.
func (p *Pyro) InspectEnvironment(ctx context.Context, name string) (*Environment, error) {
	found, err := p.store.Inspect(ctx, name)
	if err != nil {
		return nil, err
	}
	e := Environment(found)
	return &e, nil
}

// PullEnvironmentRequest says what to install.
type PullEnvironmentRequest struct {
	Environment string `json:"environment"`     // of the catalogue, or an OCI reference
	Force       bool   `json:"force,omitempty"` // make it anew, and have the name stand for that

	Progress ProgressFunc `json:"-"`
}

// PullEnvironment installs an environment. An installed one is checked, and made again where it is damaged.
func (p *Pyro) PullEnvironment(ctx context.Context, req PullEnvironmentRequest) (*Environment, error) {
	if req.Environment == "" {
		return nil, invalid("environment is missing").WithHint("%s", toListEnvironments)
	}
	found, err := p.store.Pull(ctx, req.Environment, req.Force, req.Progress.adapt())
	if err != nil {
		return nil, because(ctx, err)
	}
	e := Environment(found)
	return &e, nil
}

// known fails for a name that no environment can have: a bad reference, or one that is near the catalogue's but not in it. It reads no more than one
// small file, so that a mistake is told before anything is made ready.
func (p *Pyro) known(ctx context.Context, name string) error {
	_, err := p.store.Inspect(ctx, name)
	if KindOf(err) == NotFound && HintOf(err) == "pyro env pull "+name {
		return nil
	}
	return err
}
