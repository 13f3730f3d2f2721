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
		below, err := b.builtStage(ctx, n)
		if err != nil {
			return nil, err
		}
		s := below.fork()
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
	s.config, s.below = *recipe.Config.DeepCopy(), len(recipe.Layers)
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

// parseTriggers returns the instructions of ONBUILD, which run at the start of a stage.
func parseTriggers(lines []string) ([]instructions.Command, error) {
	var all []instructions.Command
	for _, line := range lines {
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
	return all, nil
}

// checkArgs returns an error if an argument has a value that no ARG declares. If the Dockerfile
// itself does not declare an argument, a trigger of a base can. Only then, checkArgs pulls the
// bases of needed stages.
func (b *builder) checkArgs(ctx context.Context, needed []bool) error {
	if b.file.checkArgs(b.Args, nil) == nil {
		return nil
	}
	var triggers []string
	for i, from := range b.file.stages {
		if _, stage := b.file.earlier(from.BaseName, i); stage || !needed[i] || from.BaseName == "scratch" {
			continue
		}
		base, err := b.manager.Environments.Use(ctx, from.BaseName, b.Progress)
		if err != nil {
			return invalidAt(err, from.Location)
		}
		base.Close()
		if _, recipe, err := b.manager.Environments.Recipe(from.BaseName); err == nil {
			triggers = append(triggers, recipe.Config.OnBuild...)
		}
	}
	return b.file.checkArgs(b.Args, triggers)
}

// sourceOf returns the files that a step of a stage copies. An empty name means the build context.
func (b *builder) sourceOf(ctx context.Context, s *stage, name string) (*source, error) {
	if name == "" {
		return b.context, nil
	}
	if n, ok := b.file.earlier(name, s.index); ok {
		// Only a trigger of an image can need a stage that is not built.
		below, err := b.builtStage(ctx, n)
		if err != nil {
			return nil, err
		}
		tree, err := below.top(ctx, b.layers)
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
