package pyro

import (
	"cmp"
	"context"
)

// PushEnvironmentRequest contains the parameters of [Pyro.PushEnvironment]. Environment is
// required.
type PushEnvironmentRequest struct {
	Environment string `json:"environment"`      // an installed environment
	Target      string `json:"target,omitempty"` // name in the registry; default: the name of the environment

	Progress ProgressFunc `json:"-"`
}

// PushedEnvironment is an environment in a registry.
type PushedEnvironment struct {
	Environment    string `json:"environment"`
	Target         string `json:"target"`
	ManifestDigest string `json:"manifest_digest"`
}

// PushEnvironment writes an installed environment to an OCI registry. Credentials come from `docker
// login`. The base is one layer, and each step of its build is another one.
func (p *Pyro) PushEnvironment(ctx context.Context, req PushEnvironmentRequest) (*PushedEnvironment, error) {
	if req.Environment == "" {
		return nil, invalid("environment is missing").WithHint("%s", toListEnvironments)
	}
	target := cmp.Or(req.Target, req.Environment)
	digest, err := p.workspaces.Environments.Push(ctx, req.Environment, target, req.Progress.adapt())
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	return &PushedEnvironment{req.Environment, target, digest}, nil
}

// SaveEnvironmentRequest contains the parameters of [Pyro.SaveEnvironment]. Both fields are
// required.
type SaveEnvironmentRequest struct {
	Environment string `json:"environment"` // an installed environment
	OutputPath  string `json:"output_path"` // On the host. A tar archive if it ends in .tar, and otherwise a new folder.

	Progress ProgressFunc `json:"-"`
}

// SavedEnvironment is an environment that was saved as an OCI layout.
type SavedEnvironment struct {
	Environment string `json:"environment"`
	OutputPath  string `json:"output_path"`
}

// SaveEnvironment writes an installed environment as an OCI layout to the host.
func (p *Pyro) SaveEnvironment(ctx context.Context, req SaveEnvironmentRequest) (*SavedEnvironment, error) {
	switch {
	case req.Environment == "":
		return nil, invalid("environment is missing").WithHint("%s", toListEnvironments)
	case req.OutputPath == "":
		return nil, invalid("output_path is missing")
	}
	if err := p.workspaces.Environments.Save(ctx, req.Environment, req.OutputPath, req.Progress.adapt()); err != nil {
		return nil, causeOf(ctx, err)
	}
	return &SavedEnvironment{req.Environment, req.OutputPath}, nil
}

// LoadEnvironmentRequest contains the parameters of [Pyro.LoadEnvironment]. Path is required.
type LoadEnvironmentRequest struct {
	Path string `json:"path"`           // an OCI layout on the host: a folder or a tar archive
	Name string `json:"name,omitempty"` // name of the environment; default: the name in the layout

	Progress ProgressFunc `json:"-"`
}

// LoadEnvironment installs an environment from an OCI layout, such as one that SaveEnvironment,
// skopeo or buildah wrote.
func (p *Pyro) LoadEnvironment(ctx context.Context, req LoadEnvironmentRequest) (*Environment, error) {
	if req.Path == "" {
		return nil, invalid("path is missing")
	}
	found, err := p.workspaces.Environments.Load(ctx, req.Path, req.Name, req.Progress.adapt())
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	e := Environment(found)
	return &e, nil
}
