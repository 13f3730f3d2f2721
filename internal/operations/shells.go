package operations

import (
	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/mcp"
)

// shells returns the operations on shells: programs on a terminal in a workspace.
func shells() []Operation {
	id := mcp.String("shell_id", "").Require()
	return []Operation{
		operation("open_shell", "pyro workspace shell open", (*pyro.Pyro).OpenShell).
			tool("shell_open", "Open a shell", "Open a persistent shell on a terminal. For single commands use workspace_exec.", mcp.Runs,
				argWorkspace, argUser, argCwd, mcp.Integer("cols", "", 1, 1000).Default(pyro.DefaultShellCols), mcp.Integer("rows", "", 1, 1000).Default(pyro.DefaultShellRows), argSecretEnv).remote(NeedsMachine),
		operation("list_shells", "pyro workspace shell list", byWorkspace((*pyro.Pyro).ListShells)).remote(NeedsMachine),
		operation("read_shell", "pyro workspace shell read", (*pyro.Pyro).ReadShell).
			tool("shell_read", "Read a shell", "Read the output of a shell from a cursor.", mcp.Reads, argWorkspace, id,
				mcp.Integer("cursor", "next_cursor of the previous read", 0, 0).Default(0), mcp.Integer("max_chars", "", 1, pyro.MaxReadChars).Default(pyro.DefaultMaxChars),
				mcp.Boolean("plain", "the text on the screen, without control sequences").Default(false),
				mcp.Integer("wait_for_idle_ms", "wait until the shell is silent for this time", 1, pyro.MaxWaitForIdleMS)).remote(NeedsMachine),
		operation("write_shell", "pyro workspace shell write", (*pyro.Pyro).WriteShell).
			tool("shell_write", "Type into a shell", "Type into a shell.", mcp.Runs, argWorkspace, id, mcp.String("input", "").Require(), mcp.Boolean("append_newline", "").Default(true)).remote(NeedsMachine),
		operation("signal_shell", "pyro workspace shell signal", (*pyro.Pyro).SignalShell).
			tool("shell_signal", "Signal a shell", "Send a signal to the program in a shell.", mcp.Changes, argWorkspace, id, mcp.String("signal_name", "", pyro.ShellSignals...).Default("INT")).remote(NeedsMachine),
		operation("resize_shell", "pyro workspace shell resize", (*pyro.Pyro).ResizeShell).remote(NeedsMachine),
		operation("close_shell", "pyro workspace shell close", byShell((*pyro.Pyro).CloseShell)).
			tool("shell_close", "Close a shell", "Close a shell.", mcp.Replaces, argWorkspace, id).remote(NeedsMachine),
	}
}
