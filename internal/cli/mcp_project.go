package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pyro-mcp/pyro/internal/project"
)

// projectSource is which project a server is told to take.
type projectSource struct {
	path string
	none bool
}

func (s *projectSource) flags(f *pflag.FlagSet) {
	f.StringVar(&s.path, "project-path", "", "the project is this folder, `PATH` (default: the git checkout in which it was started)")
	f.BoolVar(&s.none, "no-project-source", false, "there is no project")
}

// check refuses what contradicts itself.
func (s *projectSource) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed("project-path")
	switch {
	case given && s.none:
		return usage(cmd, "--project-path and --no-project-source exclude each other")
	case given && s.path == "":
		return usage(cmd, "--project-path is empty: --no-project-source is for no project")
	}
	return nil
}

// find gives the project's folder, "" for none. Only where look is set it looks for one that was not named.
func (s *projectSource) find(cmd *cobra.Command, look bool) (string, error) {
	if err := s.check(cmd); err != nil || s.none || s.path != "" || !look {
		return s.path, err
	}
	folder, err := project.Find(".")
	if err != nil || folder == "" {
		return "", nil // there may be no such folder any more: then there is no project in it
	}
	if home, _ := os.UserHomeDir(); project.TooWide(folder, home) {
		fmt.Fprintf(os.Stderr, "pyro: note: the git checkout %q is your home folder, or above it, and is not taken as the project; --project-path takes it\n", folder)
		return "", nil
	}
	return folder, nil
}
