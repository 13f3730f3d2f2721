package keeper

import (
	"maps"
	"slices"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/session"
)

// workspaceSeconds is the time limit of a command that is to have none: the longest that pyro takes.
const workspaceSeconds = "2592000"

// inWorkspace is the command that runs a session's in the machine of a workspace: pyro's own, which passes the terminal on, its size and its keys.
func inWorkspace(spec session.Spec) ([]string, error) {
	if spec.WorkspaceID == "" {
		return nil, fault.Newf(fault.Invalid, "backend \"workspace\" needs a workspace_id").WithHint("%s", fault.Act("workspace_list", "pyro workspace list"))
	}
	program, err := dirs.Program("")
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
