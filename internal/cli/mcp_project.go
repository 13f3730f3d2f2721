package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pyro-mcp/pyro/internal/project"
)

// projectSource contains the flags that select the project of a server.
type projectSource struct {
	path string
	none bool
}

func (s *projectSource) flags(f *pflag.FlagSet) {
	f.StringVar(&s.path, "project-path", "", "`PATH` of the project's folder (default: the git checkout in the current folder)")
	f.BoolVar(&s.none, "no-project-source", false, "use no project")
}

// check rejects flags that contradict each other.
func (s *projectSource) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed("project-path")
	switch {
	case given && s.none:
		return usage(cmd, "--project-path and --no-project-source exclude each other")
	case given && s.path == "":
		return usage(cmd, "--project-path is empty: use --no-project-source for no project")
	}
	return nil
}

// find returns the folder of the project, or "" if there is none. It looks for a git checkout only
// if look is true.
func (s *projectSource) find(cmd *cobra.Command, look bool) (string, error) {
	if err := s.check(cmd); err != nil || s.none || s.path != "" || !look {
		return s.path, err
	}
	folder, err := project.Find(".")
	if err != nil || folder == "" {
		return "", nil // an error is ignored, because the working directory might have been deleted
	}
	if home, _ := os.UserHomeDir(); project.TooWide(folder, home) {
		fmt.Fprintf(os.Stderr, "pyro: note: the git checkout %q contains your home folder, so it is not used as the project; --project-path overrides this\n", folder)
		return "", nil
	}
	return folder, nil
}
