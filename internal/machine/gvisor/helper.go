package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/lazyregexp"
	"github.com/pyro-mcp/pyro/internal/machine/process"
)

// HelperName is the program that becomes a machine. It is gVisor's runsc, built for pyro from the
// module in runsc/.
const HelperName = "pyro-runsc"

// Helper is an installed helper.
type Helper struct {
	Path string
	ID   string // changes when the program is replaced
}

// FindHelper finds the helper. It uses PYRO_RUNSC if that is set. Otherwise it looks in the folder
// of the running executable, then in the folder of program. The parameter program can be empty.
func FindHelper(program string) (Helper, error) {
	path := os.Getenv("PYRO_RUNSC")
	if path == "" {
		exe, err := os.Executable()
		if err != nil {
			return Helper{}, err
		}
		path = filepath.Join(filepath.Dir(exe), HelperName)
		if !exists(path) && program != "" {
			path = filepath.Join(filepath.Dir(program), HelperName)
		}
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Helper{}, missing("find "+HelperName, path, errors.New("it does not exist"))
	case err != nil:
		return Helper{}, missing("find "+HelperName, path, errors.Unwrap(err))
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o001 == 0:
		// If pyro is root, the helper runs as an unprivileged user, who must be able to execute the
		// file.
		return Helper{}, missing("find "+HelperName, path, fmt.Errorf("not all users can execute it (%s)", info.Mode()))
	}
	id, err := disk.Identity(path)
	if err != nil {
		return Helper{}, missing("find "+HelperName, path, err)
	}
	return Helper{path, id}, nil
}

// versionLine matches the version in the output of --version.
var versionLine = lazyregexp.New(`(?m)^runsc version (\S+)$`)

// Version runs the helper and returns its version, which is the version of pyro that the helper was
// built for.
func (h Helper) Version(ctx context.Context) (string, error) {
	return process.Version(ctx, HelperName, h.Path, versionLine())
}

func missing(op, subject string, err error) error {
	return &fault.Error{
		Op: op, Subject: subject, Kind: fault.Unavailable, Err: err,
		Hint: "make build, which puts it beside pyro, or set PYRO_RUNSC to its path",
	}
}
