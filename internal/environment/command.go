package environment

import (
	"errors"
	"slices"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// ErrNoCommand is the cause of the error of [Environment.Command].
var ErrNoCommand = errors.New("nothing to run: set argv or command")

// Command returns the environment's own command: the program and its arguments. If it has none, the
// error has kind Invalid. Records of earlier versions contain no commands. So for an OCI image, the
// hint suggests another pull.
func (e Environment) Command() ([]string, error) {
	argv := slices.Concat(e.Entrypoint, e.Cmd)
	if len(argv) > 0 && argv[0] != "" {
		return argv, nil
	}
	err := fault.Newf(fault.Invalid, "%w", ErrNoCommand)
	if e.Source == SourceOCI {
		return nil, err.WithHint("if the image has a command of its own: pyro env pull --force %s", e.Name)
	}
	return nil, err
}
