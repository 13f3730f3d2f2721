package keeper

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/session"
)

// workspaceSeconds is the time limit of a command that is to have none: the longest that pyro takes.
const workspaceSeconds = "2592000"

// inWorkspace is the command that runs a session's in the machine of a workspace: pyro's own, which passes the terminal on, its size and its keys.
func inWorkspace(spec session.Spec) ([]string, error) {
	if spec.WorkspaceID == "" {
		return nil, fault.New(fault.Invalid, "", "", "backend \"workspace\" needs a workspace_id").WithHint("pyro workspace list")
	}
	program, err := pyroProgram()
	if err != nil {
		return nil, err
	}
	argv := []string{program, "workspace", "exec", "--quiet", "--timeout-seconds", workspaceSeconds, "--cwd", spec.Cwd}
	if !spec.Separate {
		argv = append(argv, "--tty")
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Env)) {
		argv = append(argv, "--env", name+"="+spec.Env[name])
	}
	return append(argv, spec.WorkspaceID, "--", "bash", "-lc", spec.Command), nil
}

// pyroProgram finds the command pyro: this program, or that which PYRO_PROGRAM names, or one beside this or in PATH.
func pyroProgram() (string, error) {
	if given := os.Getenv("PYRO_PROGRAM"); given != "" {
		return filepath.Abs(given)
	}
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	if filepath.Base(own) == "pyro" {
		return own, nil
	}
	if beside, err := exec.LookPath(filepath.Join(filepath.Dir(own), "pyro")); err == nil {
		return beside, nil
	}
	found, err := exec.LookPath("pyro")
	if err != nil {
		return "", fault.New(fault.Unavailable, "find the command pyro", "", "it is not in PATH").WithHint("set PYRO_PROGRAM to its path")
	}
	return found, nil
}
