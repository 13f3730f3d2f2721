package build

import (
	"context"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// from returns the state at the start of a stage.
func (b *builder) from(ctx context.Context, i int, from instructions.Stage) (*state, error) {
	if err := b.checkPlatform(from); err != nil {
		return nil, err
	}
	if n, ok := b.file.earlier(from.BaseName, i); ok {
		s := b.stages[n].state.fork()
		base, err := b.manager.Environments.UseDigest(ctx, s.base.Digest, s.base.Name, b.Progress)
		if err != nil {
			return nil, err
		}
		s.base = base
		return s, nil
	}
	if from.BaseName == "scratch" {
		base, err := b.layers.Scratch(ctx, b.Progress)
		if err != nil {
			return nil, err
		}
		s := b.first(base)
		s.config.Env = []string{defaultPath}
		return s, nil
	}
	base, err := b.manager.Environments.Use(ctx, from.BaseName, b.Progress)
	if err != nil {
		return nil, err
	}
	s := b.first(base)
	_, recipe, err := b.manager.Environments.Recipe(from.BaseName)
	if err != nil {
		base.Close()
		return nil, err
	}
	s.config = *recipe.Config.DeepCopy()
	if _, known := variables(s.config.Env).Get("PATH"); !known {
		s.config.Env = append(s.config.Env, defaultPath) // so that steps can extend it
	}
	return s, nil
}

// first returns the state of a stage that begins with an image.
func (b *builder) first(base *environment.ImageRef) *state {
	s := &state{base: base}
	s.key = s.after("from", base.Digest)
	return s
}

// checkPlatform returns an error if a stage needs another platform than this host's.
func (b *builder) checkPlatform(from instructions.Stage) error {
	if from.Platform == "" {
		return nil
	}
	name, err := b.file.word(b.global)(from.Platform)
	if err != nil {
		return err
	}
	here, _ := b.global.Get("TARGETPLATFORM")
	if name == "" || name == here || strings.HasPrefix(name, here+"/") {
		return nil
	}
	return unsupported("FROM --platform=%s on %s", name, here)
}

// triggers returns the ONBUILD instructions of a base, which run at the start of a stage.
func (b *builder) triggers(s *state) ([]instructions.Command, error) {
	var all []instructions.Command
	for _, line := range s.config.OnBuild {
		read, err := parser.Parse(strings.NewReader(line))
		if err != nil {
			return nil, err
		}
		for _, node := range read.AST.Children {
			c, err := instructions.ParseCommand(node)
			if err != nil {
				return nil, err
			}
			all = append(all, c)
		}
	}
	s.config.OnBuild = nil
	return all, nil
}

// sourceOf returns the files that a step of a stage copies. An empty name means the build context.
func (b *builder) sourceOf(ctx context.Context, s *stage, name string) (*source, error) {
	if name == "" {
		return b.context, nil
	}
	if n, ok := b.file.earlier(name, s.index); ok {
		tree, err := b.stages[n].state.top(ctx, b.layers)
		return &source{tree: tree, owned: true}, err
	}
	if n, ok := b.file.find(name); ok {
		return nil, fault.Newf(fault.Invalid, "stage %d does not come before this stage", n)
	}
	if known := b.images[name]; known != nil {
		return &source{tree: known.tree, owned: true}, nil
	}
	ref, err := b.manager.Environments.Use(ctx, name, b.Progress)
	if err != nil {
		return nil, err
	}
	tree, err := environment.OpenTree(ref)
	if err != nil {
		ref.Close()
		return nil, err
	}
	b.images[name] = &opened{ref, tree}
	return &source{tree: tree, owned: true}, nil
}

// export creates the environment.
func (b *builder) export(ctx context.Context, s *state) (environment.Environment, error) {
	c := s.config
	recipe := environment.Recipe{Base: s.base.Digest, Layers: s.layers, Config: c}
	if env, below, err := b.manager.Environments.Recipe(s.base.Name); err == nil && env.Digest == s.base.Digest && s.base.Name != "scratch" {
		// The base has layers of its own, which a registry can share.
		recipe.Base, recipe.Layers = below.Base, slices.Concat(below.Layers, s.layers)
	}
	env := environment.Environment{
		Name: b.Name, Source: environment.SourceBuild, Env: c.Env, User: c.User, WorkDir: c.WorkingDir,
		Entrypoint: c.Entrypoint, Cmd: c.Cmd, Description: c.Labels["org.opencontainers.image.title"],
	}
	return b.layers.Make(ctx, env, recipe, b.Progress)
}
