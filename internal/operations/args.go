package operations

import (
	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/mcp"
)

// Arguments that several tools have.
var (
	argWorkspace      = mcp.String("workspace_id", "").Require()
	argVM             = mcp.String("vm_id", "").Require()
	argEnvironment    = mcp.String("environment", "debian:12, debian:12-base, -build, or an OCI image").Require()
	argCommand        = mcp.String("command", "a /bin/sh command").Require()
	argUser           = mcp.String("user", "name or number, with an optional :group; default: the image's user")
	argTimeout        = mcp.Integer("timeout_seconds", "", 1, pyro.MaxSeconds).Default(pyro.DefaultTimeoutSeconds)
	argSecretEnv      = mcp.StringMap("secret_env", "secrets to pass, as {SECRET: VARIABLE}")
	argMaxBytes       = mcp.Integer("max_bytes", "", 1, pyro.MaxReadBytes).Default(pyro.DefaultMaxBytes)
	argRecursive      = mcp.Boolean("recursive", "")
	argIncludeGit     = mcp.Boolean("include_git", "with recursive: include .git").Default(false)
	argIncludeIgnored = mcp.Boolean("include_ignored", "include files that git ignores").Default(false)
	argFull           = mcp.Boolean("full", "with modes, owners, times and link targets").Default(false)
	argTail           = mcp.Integer("tail_lines", "", 1, 1<<20).Default(pyro.DefaultTailLines)
	argAll            = mcp.Boolean("all", "all stored lines")
	argOutputPath     = mcp.String("output_path", "on the host").Require()
	argCwd            = mcp.String("cwd", "").Default(pyro.WorkspacePath)
	argIsolation      = mcp.String("isolation", "fails if unavailable; default: the server's setting, or auto",
		string(pyro.IsolationAuto), string(pyro.IsolationKVM), string(pyro.IsolationGVisor), string(pyro.IsolationTCG))
	argHostCompat  = mcp.Boolean("allow_host_compat", "run unisolated on the host if no machine can start").Default(false)
	argEgressAllow = mcp.Strings("egress_allow", "reach only these: addresses, CIDRs, names or *.NAME, with an optional :PORT")
	argEgressDeny  = mcp.Strings("egress_deny", "never reach these")
	argHostNetwork = mcp.Boolean("host_network_settings", "use the host's proxies, CA certificates and mirrors of apt, Go, npm, pip").Default(false)
)

// machineArgs returns the arguments of a tool that starts a machine. It inserts the arguments of
// the parameter more before the last two arguments.
func machineArgs(more ...mcp.Arg) []mcp.Arg {
	return append([]mcp.Arg{
		argEnvironment, mcp.Integer("vcpu_count", "", 1, pyro.MaxVCPUCount).Default(pyro.DefaultVCPUCount), mcp.Integer("mem_mib", "", pyro.MinMemMiB, 0).Default(pyro.DefaultMemMiB),
		mcp.Integer("ttl_seconds", "", 1, pyro.MaxSeconds).Default(pyro.DefaultTTLSeconds),
	}, append(more, argIsolation, argHostCompat)...)
}
