package build

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/network"
	"github.com/pyro-mcp/pyro/internal/program"
)

// script is the path of the script of a step that begins with #!. No layer contains it.
const script = "/dev/.pyro-build"

// defaultShell runs commands, unless SHELL says otherwise.
var defaultShell = []string{"/bin/sh", "-c"}

// defaultPath is the search path of environments that do not set one.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// runStep runs a RUN instruction in a machine. For argv and text see commandOf.
func (b *builder) runStep(ctx context.Context, st *stage, mounts []mount, argv []string, text string, out *printer) (layer string, err error) {
	g, err := b.ready(ctx, st)
	if err != nil {
		return "", err
	}
	if text != "" {
		spec := client.FileSpec{Path: script, Mode: 0o755, Size: int64(len(text))}
		if err := g.Agent.WriteFile(ctx, spec, strings.NewReader(text)); err != nil {
			return "", err
		}
		defer g.Agent.Remove(context.WithoutCancel(ctx), script)
	}
	unmount, env, err := b.mount(ctx, g, mounts)
	if err != nil {
		return "", err
	}
	s := st.state
	refusals := g.Network().WatchRefusals()
	exit, err := g.Agent.Exec(ctx, program.Command{
		Argv: argv, Env: slices.Concat(b.HostNetwork.Variables(), b.Credentials, b.proxyArgs(), s.scope(), env), User: s.config.User,
		Cwd: path.Join("/", s.config.WorkingDir), KillRest: true,
	}, program.Attach{Stdout: out, Stderr: out})
	out.close()
	if err == nil {
		err = failure(exit, strings.Join(argv, " "))
	}
	if count, first := refusals.Stop(); count > 0 && err != nil {
		out.report(refused(count, first))
	}
	if unmountErr := unmount(ctx, err == nil); err == nil {
		err = unmountErr
	}
	if err != nil {
		return "", err
	}
	return b.layerOf(ctx, g)
}

// refused returns a message that lists the connections that the network policy refused.
func refused(count int, first []network.Refusal) string {
	var all []string
	for _, one := range first {
		all = append(all, fmt.Sprintf("%s (%s)", one.Target, one.Reason))
	}
	if count > len(all) {
		all = append(all, fmt.Sprintf("and %d more", count-len(all)))
	}
	return "pyro: the network policy refused connections to " + strings.Join(all, ", ")
}

// failure returns an error if a command did not succeed.
func failure(exit program.Exit, command string) error {
	if len(command) > 200 {
		command = command[:200] + "…"
	}
	var how string
	switch {
	case exit.NotRun != "":
		how = exit.NotRun
	case exit.OutOfMemory:
		how = "the machine ran out of memory"
	case exit.Signal != 0:
		how = fmt.Sprintf("it was ended by signal %d", exit.Signal)
	case exit.Code != 0:
		how = fmt.Sprintf("exit code %d", exit.Code)
	default:
		return nil
	}
	return fault.New(fault.Precondition, "run", command, "%s", how)
}

// commandOf returns the command of a RUN instruction. If the instruction contains a script with its
// own interpreter, text is the script, and the command is the path of the script.
func commandOf(s *state, c *instructions.RunCommand) (argv []string, text string, err error) {
	argv = c.CmdLine
	if len(c.Files) > 0 {
		if len(argv) != 1 || !c.PrependShell {
			return nil, "", fault.Newf(fault.Invalid, "a here-document needs a command for the shell")
		}
		if parser.MustParseHeredoc(argv[0]) == nil { // the shell reads the documents
			full := argv[0]
			for _, f := range c.Files {
				full += "\n" + f.Data + f.Name
			}
			argv = []string{full}
		} else {
			text := c.Files[0].Data
			if c.Files[0].Chomp {
				text = parser.ChompHeredocContent(text)
			}
			if strings.HasPrefix(text, "#!") {
				return []string{script}, text, nil
			}
			argv = []string{text}
		}
	}
	if c.PrependShell {
		argv = append(slices.Clone(s.shell()), argv...)
	}
	return argv, "", nil
}

// shell returns the shell of a stage.
func (s *state) shell() []string {
	if len(s.config.Shell) > 0 {
		return s.config.Shell
	}
	return defaultShell
}

// proxyArgs returns the proxies that the caller has set as build arguments.
func (b *builder) proxyArgs() []string {
	var env []string
	for _, name := range proxies {
		if value, ok := b.Args[name]; ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
