package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine/process"
)

// HelperName is the program that is a machine: gVisor's runsc, built for pyro (the module in runsc/).
const HelperName = "pyro-runsc"

// Helper is the program, found.
type Helper struct {
	Path string
	ID   string // changes when the program is replaced
}

// FindHelper finds the program where PYRO_RUNSC says, else beside the running executable, else beside pyro's program, where that is another one; it may be empty.
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
		return Helper{}, missing("find "+HelperName, path, errors.New("it is not there"))
	case err != nil:
		return Helper{}, missing("find "+HelperName, path, errors.Unwrap(err))
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o001 == 0:
		// Under root it is run by a user who is nobody on this host.
		return Helper{}, missing("find "+HelperName, path, fmt.Errorf("it is not a program that everybody may run (%s)", info.Mode()))
	}
	id, err := disk.Identity(path)
	if err != nil {
		return Helper{}, missing("find "+HelperName, path, err)
	}
	return Helper{path, id}, nil
}

// versionLine is the program's answer to --version.
var versionLine = regexp.MustCompile(`(?m)^runsc version (\S+)$`)

// Version asks the program for its version, which is that of the pyro that it was built with.
func (h Helper) Version(ctx context.Context) (string, error) {
	return process.Version(ctx, HelperName, h.Path, versionLine)
}

func missing(op, subject string, err error) error {
	return &fault.Error{
		Op: op, Subject: subject, Kind: fault.Unavailable, Err: err,
		Hint: "make build, which puts it beside pyro, or set PYRO_RUNSC to its path",
	}
}
