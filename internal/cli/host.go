package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/agenthost"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/project"
)

func newHost() *cobra.Command {
	cmd := subgroup("host", "Connect programs that agents run in, and serve this host to a control plane",
		newHostConnect(), newHostPrintConfig(), newHostDoctor(), newHostRepair(), newHostServe(), newHostCerts())
	cmd.Long = `Have a program that agents run in, such as Claude Code or Codex, give its agents pyro's tools: it
is told to start "pyro mcp serve". "pyro host doctor" tells which of them this host has, and
whether what they have of pyro works.

"pyro host serve" is another matter: it serves the machines of this host to a control plane.`
	return cmd
}

// hostServer is what a host is to start, as flags say it.
type hostServer struct {
	name, profile string
	project       projectSource
}

func (s *hostServer) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.name, "name", agenthost.DefaultName, "what the host calls it, `NAME`")
	profileFlag(cmd, &s.profile, agenthost.DefaultProfile)
	s.project.flags(cmd.Flags())
}

// passed are the environment variables of pyro's that a host gets, where they are set: it may be started without them, or pass on few of its own.
var passed = []string{"PYRO_STATE_DIR", "PYRO_CACHE_DIR", "PYRO_ISOLATION", "PYRO_RUNSC", "XDG_STATE_HOME", "XDG_CACHE_HOME"}

// server makes it, with the absolute path of this pyro.
func (s *hostServer) server(cmd *cobra.Command) (agenthost.Server, error) {
	self, err := ownPath()
	if err != nil {
		return agenthost.Server{}, err
	}
	if err := s.project.check(cmd); err != nil {
		return agenthost.Server{}, err
	}
	made := agenthost.Server{Name: s.name, Command: self, Args: []string{"mcp", "serve", "--profile", s.profile}, Env: map[string]string{}}
	if !slices.Contains(pyro.Profiles, pyro.Profile(s.profile)) {
		return made, usage(cmd, "--profile is %q: it must be vm-run, workspace-core or workspace-full", s.profile)
	}
	if s.project.none {
		made.Args = append(made.Args, "--no-project-source")
	}
	if s.project.path != "" {
		path, err := filepath.Abs(s.project.path)
		if err != nil {
			return made, err
		}
		if info, err := os.Stat(path); err != nil {
			return made, fault.Wrap(err, "take the project", s.project.path)
		} else if !info.IsDir() {
			return made, fault.New(fault.Invalid, "take the project", s.project.path, "it is no folder")
		}
		made.Args = append(made.Args, "--project-path", path)
	}
	for _, name := range passed {
		value := os.Getenv(name)
		if strings.Contains(value, "/") {
			if value, err = filepath.Abs(value); err != nil {
				return made, err
			}
		}
		if value != "" {
			made.Env[name] = value
		}
	}
	return made, made.Check()
}

// ownPath is the absolute path of this program, by the name that it was called by where that leads to it: a link stays right when what it leads to is replaced.
func ownPath() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fault.Wrap(err, "find pyro", "")
	}
	return agenthost.Called(os.Args[0], self), nil
}

// presentHome is where hosts of the present user keep things, seen from the present folder.
func presentHome() (agenthost.Home, error) {
	folder, err := project.Find(".")
	if err != nil {
		folder = ""
	}
	return agenthost.Here(folder)
}

func newHostPrintConfig() *cobra.Command {
	var s hostServer
	var output string
	var fromPath bool
	names := agenthost.Names(agenthost.Hosts...)
	cmd := &cobra.Command{
		Use:   "print-config HOST",
		Short: "Print the configuration that has a host start pyro",
		Long: `Print the configuration that has HOST start pyro: one of ` + strings.Join(names, ", ") + `.
Where it belongs is told on stderr. It is a whole file: where you have one already, put what is
new into it.`,
		Example: `  pyro host print-config cursor
  pyro host print-config claude-code --from-path --output .mcp.json`,
		Args: arguments, ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := agenthost.Find(args[0])
			if err != nil {
				return err
			}
			server, err := s.server(cmd)
			if err != nil {
				return err
			}
			if fromPath {
				server.Command, server.Env = "pyro", nil
			}
			home, err := presentHome()
			if err != nil {
				return err
			}
			if output == "" {
				fmt.Fprintf(os.Stderr, "pyro: this belongs into %s\n", h.File(home))
				_, err = os.Stdout.Write(h.Document(server))
				return err
			}
			if err := writeNew(output, h.Document(server)); err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "pyro: wrote %s; it belongs into %s\n", output, h.File(home))
			return nil
		},
	}
	s.flags(cmd)
	cmd.Flags().StringVar(&output, "output", "", "write it to a new file, `PATH`")
	cmd.Flags().BoolVar(&fromPath, "from-path", false, "to share it: name the program pyro, to be found in PATH, and no variables of this host")
	return cmd
}

// writeNew writes a file that must not be there yet: all of it, or there is none.
func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		if os.IsExist(err) {
			return fault.New(fault.Exists, "write", path, "it is there already, and is not written over")
		}
		return fault.Wrap(err, "write", path)
	}
	_, err = f.Write(text)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		os.Remove(path)
	}
	return fault.Wrap(err, "write", path)
}

// given are the flags of a call, to be said again to another command that has them.
func given(cmd *cobra.Command) (text string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "bool" {
			text += " --" + f.Name
		} else {
			text += " --" + f.Name + " " + agenthost.Quote(f.Value.String())
		}
	})
	return text
}
