package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pyro-mcp/pyro/internal/agenthost"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/operations"
	"github.com/pyro-mcp/pyro/internal/project"
)

func newHost() *cobra.Command {
	cmd := subgroup("host", "Connect agents, show network settings, and serve this host to a control plane",
		newHostConnect(), newHostPrintConfig(), newHostDoctor(), newHostRepair(), newHostNetwork(), newHostServe(), newHostCerts())
	cmd.Long = `Connect pyro to the programs that run agents, such as Claude Code or Codex. Such a program then
starts "pyro mcp serve" and gives its agents the tools. "pyro host doctor" lists the installed
programs and checks their configuration of pyro.

"pyro host network-settings" shows how this host's tools reach the network. Machines can use the
same settings.

"pyro host serve" and "pyro host certs" are for control planes: they serve the machines of this
host.`
	return cmd
}

// hostServer contains the flags that describe the MCP server of a host.
type hostServer struct {
	name, profile string
	project       projectSource
}

func (s *hostServer) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.name, "name", agenthost.DefaultName, "`NAME` of the server")
	profileFlag(cmd, &s.profile, agenthost.DefaultProfile)
	s.project.flags(cmd.Flags())
}

// passed lists environment variables. If one of them is set, it is written to the host's
// configuration, because some hosts do not pass their own environment to servers.
var passed = []string{"PYRO_STATE_DIR", "PYRO_CACHE_DIR", "PYRO_ISOLATION", "PYRO_RUNSC", "XDG_STATE_HOME", "XDG_CACHE_HOME"}

// server returns the server that the flags describe. The command of the server is the absolute path
// of this program.
func (s *hostServer) server(cmd *cobra.Command) (agenthost.Server, error) {
	self, err := ownPath()
	if err != nil {
		return agenthost.Server{}, err
	}
	if err := s.project.check(cmd); err != nil {
		return agenthost.Server{}, err
	}
	made := agenthost.Server{Name: s.name, Command: self, Args: []string{"mcp", "serve", "--profile", s.profile}, Env: map[string]string{}}
	if !slices.Contains(operations.Profiles, operations.Profile(s.profile)) {
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
			return made, fault.Wrap(err, "use the project", s.project.path)
		} else if !info.IsDir() {
			return made, fault.New(fault.Invalid, "use the project", s.project.path, "it is not a folder")
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

// ownPath returns the absolute path of this program. If the program was called through a link,
// ownPath returns the path of the link, because the link stays valid after an update.
func ownPath() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fault.Wrap(err, "find pyro", "")
	}
	return agenthost.Called(os.Args[0], self), nil
}

// presentHome returns the locations of the configuration files for this user and the current
// project.
func presentHome() (agenthost.Home, error) {
	folder, err := project.Find(".")
	if err != nil {
		folder = ""
	}
	return agenthost.CurrentHome(folder)
}

func newHostPrintConfig() *cobra.Command {
	var s hostServer
	var output string
	var fromPath bool
	names := agenthost.Names(agenthost.Hosts...)
	cmd := &cobra.Command{
		Use:   "print-config HOST",
		Short: "Print a configuration for a program that runs agents",
		Long: `Print a configuration for HOST that starts pyro. HOST is one of these:

  ` + strings.Join(names, ", ") + `

Standard error names the path of the file. The output is a complete file. If the file already
exists, add only the entry for pyro.`,
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
				fmt.Fprintf(os.Stderr, "pyro: add this to %s\n", h.File(home))
				_, err = os.Stdout.Write(h.Document(server))
				return err
			}
			if err := writeNew(output, h.Document(server)); err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "pyro: wrote %s; add it to %s\n", output, h.File(home))
			return nil
		},
	}
	s.flags(cmd)
	cmd.Flags().StringVar(&output, "output", "", "write the configuration to a new file at this `PATH`")
	cmd.Flags().BoolVar(&fromPath, "from-path", false, "name the program only as pyro, without its path and the variables of this host")
	return cmd
}

// writeNew writes a new file. It fails if the file already exists. If the write fails, it removes
// the file.
func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		if os.IsExist(err) {
			return fault.New(fault.Exists, "write", path, "it exists and is not overwritten")
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

// given returns the flags of this call as text, for use in the command line of another command.
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
