package build

import (
	"context"
	"io"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"

	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// do runs one instruction. It reports whether an earlier build has done the same.
func (b *builder) do(ctx context.Context, st *stage, command instructions.Command, report *reporter) (cached bool, err error) {
	s := st.state
	if err := b.expand(s, command); err != nil {
		return false, err
	}
	c := &s.config
	switch cmd := command.(type) {
	case *instructions.EnvCommand:
		for _, v := range cmd.Env {
			c.Env = variables(c.Env).set(v.Key, v.Value)
		}
		s.key = s.after("env", c.Env)
	case *instructions.ArgCommand:
		b.declare(s, cmd)
	case *instructions.LabelCommand:
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		for _, v := range cmd.Labels {
			c.Labels[v.Key] = v.Value
		}
	case *instructions.WorkdirCommand:
		return b.workdir(ctx, st, cmd.Path)
	case *instructions.CopyCommand:
		if cmd.Parents {
			return false, unsupported("COPY --parents")
		}
		return b.copy(ctx, st, cmd.From, copying{
			paths: cmd.SourcePaths, texts: textsOf(cmd.SourceContents), to: cmd.DestPath, chown: cmd.Chown, chmod: cmd.Chmod, excluded: cmd.ExcludePatterns,
		}, report)
	case *instructions.AddCommand:
		if err := checkAdd(cmd); err != nil {
			return false, err
		}
		return b.copy(ctx, st, "", copying{
			paths: cmd.SourcePaths, texts: textsOf(cmd.SourceContents), to: cmd.DestPath, chown: cmd.Chown, chmod: cmd.Chmod, excluded: cmd.ExcludePatterns,
			archives: cmd.Unpack == nil || *cmd.Unpack,
		}, report)
	case *instructions.RunCommand:
		return b.runCached(ctx, st, cmd, report)
	case *instructions.CmdCommand:
		c.Cmd, s.hasCmd = line(s, cmd.ShellDependantCmdLine), true
	case *instructions.EntrypointCommand:
		c.Entrypoint = line(s, cmd.ShellDependantCmdLine)
		if !s.hasCmd {
			c.Cmd = nil
		}
	case *instructions.UserCommand:
		c.User = cmd.User
		s.key = s.after("user", c.User)
	case *instructions.ShellCommand:
		c.Shell = cmd.Shell
	case *instructions.ExposeCommand:
		return false, expose(c, cmd.Ports)
	case *instructions.VolumeCommand:
		if c.Volumes == nil {
			c.Volumes = map[string]struct{}{}
		}
		for _, v := range cmd.Volumes {
			c.Volumes[v] = struct{}{}
		}
	case *instructions.StopSignalCommand:
		c.StopSignal = cmd.Signal
	case *instructions.HealthCheckCommand:
		c.Healthcheck = &v1.HealthConfig{
			Test: cmd.Health.Test, Interval: cmd.Health.Interval, Timeout: cmd.Health.Timeout, StartPeriod: cmd.Health.StartPeriod, Retries: cmd.Health.Retries,
		}
	case *instructions.OnbuildCommand:
		c.OnBuild = append(c.OnBuild, cmd.Expression)
	case *instructions.MaintainerCommand: // only informs readers
	default:
		return false, unsupported("the instruction %s", strings.ToUpper(command.Name()))
	}
	return false, nil
}

// expand expands the variables in an instruction.
func (b *builder) expand(s *state, command instructions.Command) error {
	if c, ok := command.(instructions.SupportsSingleWordExpansion); ok {
		if err := c.Expand(b.file.word(s.scope())); err != nil {
			return err
		}
	}
	if c, ok := command.(instructions.SupportsSingleWordExpansionRaw); ok {
		return c.ExpandRaw(func(text string) (string, error) {
			lex := *b.file.lex
			lex.RawQuotes, lex.RawEscapes = true, true
			out, _, err := lex.ProcessWord(text, s.scope())
			return out, err
		})
	}
	return nil
}

// declare sets the arguments of an ARG instruction.
func (b *builder) declare(s *state, c *instructions.ArgCommand) {
	for _, a := range c.Args {
		value, known := b.Args[a.Key]
		if !known && a.Value != nil {
			value, known = *a.Value, true
		}
		if !known {
			value, known = b.global.Get(a.Key)
		}
		if known {
			s.args = s.args.set(a.Key, value)
		}
	}
}

// line returns the command of CMD or ENTRYPOINT.
func line(s *state, c instructions.ShellDependantCmdLine) []string {
	if c.PrependShell {
		return append(slices.Clone(s.shell()), c.CmdLine...)
	}
	return slices.Clone(c.CmdLine)
}

func expose(c *v1.Config, ports []string) error {
	if c.ExposedPorts == nil {
		c.ExposedPorts = map[string]struct{}{}
	}
	for _, p := range ports {
		if !strings.Contains(p, "/") {
			p += "/tcp"
		}
		c.ExposedPorts[p] = struct{}{}
	}
	return nil
}

func textsOf(contents []instructions.SourceContent) []text {
	var all []text
	for _, c := range contents {
		all = append(all, text{c.Path, c.Data})
	}
	return all
}

// checkAdd returns an Unsupported error if an ADD instruction has a URL as its source.
func checkAdd(c *instructions.AddCommand) error {
	for _, from := range c.SourcePaths {
		if strings.Contains(from, "://") || strings.HasPrefix(from, "git@") {
			return unsupported("ADD of the URL %s: fetch it with RUN", from)
		}
	}
	return nil
}

// workdir sets the working directory, and creates it if it is missing.
func (b *builder) workdir(ctx context.Context, st *stage, name string) (cached bool, err error) {
	s := st.state
	if !path.IsAbs(name) {
		name = path.Join("/", s.config.WorkingDir, name)
	}
	name = path.Clean(name)
	s.config.WorkingDir = name
	key := s.after("workdir", name)
	return b.layer(ctx, st, key, func(ctx context.Context) (string, error) {
		lower, err := s.top(ctx, b.layers)
		if err != nil {
			return "", err
		}
		a := newAddition(lower)
		at, err := resolve(lower, name, true)
		if err != nil {
			return "", err
		}
		if err := a.above(at); err != nil || a.empty() {
			return "", err
		}
		return b.layers.Add(ctx, func(to io.Writer) error {
			_, err := a.write(ctx, to)
			return err
		})
	})
}

// copy copies files into the stage.
func (b *builder) copy(ctx context.Context, st *stage, from string, c copying, report *reporter) (cached bool, err error) {
	src, err := b.sourceOf(ctx, st, from)
	if err != nil {
		return false, err
	}
	s := st.state
	c.from = *src
	lower, err := s.top(ctx, b.layers)
	if err != nil {
		return false, err
	}
	a, err := c.collect(ctx, lower, s.config.WorkingDir)
	if err != nil {
		return false, err
	}
	sum, err := a.hash(ctx)
	if err != nil {
		return false, err
	}
	return b.layer(ctx, st, s.after("copy", sum), func(ctx context.Context) (string, error) {
		report.started()
		if a.empty() {
			return "", nil
		}
		return b.layers.Add(ctx, func(to io.Writer) error { return a.writeSame(ctx, to, sum) })
	})
}

// runCached runs a RUN instruction, unless its result is known.
func (b *builder) runCached(ctx context.Context, st *stage, c *instructions.RunCommand, report *reporter) (cached bool, err error) {
	mounts, err := b.mountsOf(ctx, st, c)
	if err != nil {
		return false, err
	}
	s := st.state
	argv, text, err := commandOf(s, c)
	if err != nil {
		return false, err
	}
	key := s.after("run", argv, text, s.scope(), s.config.User, s.config.WorkingDir, mountKey(c, mounts), b.Network)
	return b.layer(ctx, st, key, func(ctx context.Context) (string, error) {
		report.started()
		return b.runStep(ctx, st, mounts, argv, text, report.printer())
	})
}

// layer adds the layer of a step to a stage. If there is no layer for the key, it calls produce to
// create the layer.
func (b *builder) layer(ctx context.Context, st *stage, key string, produce func(context.Context) (string, error)) (cached bool, err error) {
	if !b.NoCache {
		if layer, known := b.layers.Step(key); known {
			st.state.add(key, layer)
			return true, nil
		}
	}
	layer, err := produce(ctx)
	if err != nil {
		return false, err
	}
	st.state.add(key, layer)
	if st.state.below+len(st.state.layers) > environment.MaxLayers {
		return false, fault.Newf(fault.Exhausted, "an environment can have at most %d layers", environment.MaxLayers)
	}
	if _, err := st.state.top(ctx, b.layers); err != nil { // keep only layers that can be read
		return false, err
	}
	return false, b.layers.KeepStep(key, layer)
}
