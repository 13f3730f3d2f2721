package operations

import (
	"context"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/mcp"
)

// agentChars is how many characters of each stream command_read returns by default.
const agentChars = 16 << 10

// detached returns the operations on commands that outlive the call that started them.
func detached() []Operation {
	sequence := mcp.Integer("sequence", "number of the command", 1, 0).Require()
	read := operation("read_command", "ReadCommand", (*pyro.Pyro).ReadCommand).remote(NeedsMachine).
		tool("command_read", "Read a command", "Read the output and the state of a command from a cursor.", mcp.Reads, argWorkspace, sequence,
			mcp.String("cursor", "next_cursor of the previous read"), mcp.Integer("max_chars", "of each stream", 1, pyro.MaxReadChars).Default(agentChars),
			mcp.Integer("wait_seconds", "wait this long for new output", 0, pyro.MaxReadWaitSeconds).Default(0))
	wait := operation("wait_command", "pyro workspace wait", (*pyro.Pyro).WaitCommand).remote(NeedsMachine).
		tool("command_wait", "Wait for a command", "Wait for the end of a command. If it still runs then, call again.", mcp.Reads, argWorkspace, sequence, argTimeout)
	return []Operation{
		operation("start_command", "pyro workspace wait", (*pyro.Pyro).StartCommand).remote(NeedsMachine).
			tool("command_start", "Start a command", "Start a command in the background. It outlives the session.", mcp.Runs,
				argWorkspace, argCommand, argUser, argCwd, mcp.Integer("timeout_seconds", "default: no limit", 1, pyro.MaxSeconds), argSecretEnv),
		operation("list_commands", "pyro workspace ps", byWorkspace((*pyro.Pyro).ListCommands)).remote(NeedsRecords),
		withDefaults[pyro.ReadCommandRequest, *pyro.CommandOutput](read, func(r *pyro.ReadCommandRequest) {
			if r.MaxChars == 0 {
				r.MaxChars = agentChars
			}
		}),
		withDefaults[pyro.WaitCommandRequest, *pyro.WorkspaceCommand](wait, func(r *pyro.WaitCommandRequest) {
			if r.TimeoutSeconds == 0 {
				r.TimeoutSeconds = pyro.DefaultTimeoutSeconds
			}
		}),
		operation("kill_command", "pyro workspace kill", (*pyro.Pyro).KillCommand).remote(NeedsMachine).
			tool("command_kill", "End a command", "End a command with all its processes.", mcp.Replaces, argWorkspace, sequence,
				mcp.String("signal_name", "", pyro.CommandSignals...).Default("KILL")),
	}
}

// withDefaults returns the operation with a tool that first calls the function set. It sets the
// defaults of the tool that differ from the defaults of the operation.
func withDefaults[Req, Res any](o Operation, set func(*Req)) Operation {
	return toolAdapts(o, func(do Function[Req, Res]) Function[Req, Res] {
		return func(p *pyro.Pyro, ctx context.Context, req Req) (Res, error) {
			set(&req)
			return do(p, ctx, req)
		}
	})
}
