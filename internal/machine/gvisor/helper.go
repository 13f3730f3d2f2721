package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// HelperName is the program that is a machine: gVisor's runsc, built for pyro (the module in runsc/).
const HelperName = "pyro-runsc"

// Helper is the program, found.
type Helper struct {
	Path string
	ID   string // changes when the program is replaced
}

// FindHelper finds the program where PYRO_RUNSC says, else beside the running executable.
func FindHelper() (Helper, error) {
	path := os.Getenv("PYRO_RUNSC")
	if path == "" {
		exe, err := os.Executable()
		if err != nil {
			return Helper{}, err
		}
		path = filepath.Join(filepath.Dir(exe), HelperName)
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
	id := fmt.Sprintf("%s %d %d", path, info.Size(), info.ModTime().UnixNano())
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		id += fmt.Sprintf(" %d", st.Ino)
	}
	return Helper{path, id}, nil
}

// versionLine is the program's answer to --version.
var versionLine = regexp.MustCompile(`(?m)^runsc version (\S+)$`)

// Version asks the program for its version, which is that of the pyro that it was built with.
func (h Helper) Version(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, h.Path, "--version").Output()
	if err != nil {
		return "", fault.Wrap(err, "run "+HelperName, h.Path)
	}
	m := versionLine.FindSubmatch(out)
	if m == nil {
		return "", fault.Wrap(errors.New("it does not tell its version"), "run "+HelperName, h.Path)
	}
	return string(m[1]), nil
}

func missing(op, subject string, err error) error {
	return &fault.Error{
		Op: op, Subject: subject, Kind: fault.Unavailable, Err: err,
		Hint: "make build, which puts it beside pyro, or set PYRO_RUNSC to its path",
	}
}
