package pyro

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"

	"github.com/pyro-mcp/pyro/internal/mcp"
	"github.com/pyro-mcp/pyro/internal/project"
)

// Profile is which tools an MCP server has.
type Profile string

// The profiles.
const (
	ProfileVMRun         Profile = "vm-run"         // vm_run and no more
	ProfileWorkspaceCore Profile = "workspace-core" // what an agent needs to work on files: the one to begin with
	ProfileWorkspaceFull Profile = "workspace-full" // everything
)

// Profiles are all there are, the smallest first.
var Profiles = []Profile{ProfileVMRun, ProfileWorkspaceCore, ProfileWorkspaceFull}

// coreTools are those of ProfileWorkspaceCore, with the arguments that they have not there.
var coreTools = map[string][]string{
	"vm_run": nil, "vm_list_environments": nil, "workspace_create": {"network_policy", "egress_allow", "egress_deny", "secrets"}, "workspace_list": nil, "workspace_update": nil,
	"workspace_status": nil, "workspace_sync_push": nil, "workspace_exec": {"secret_env"}, "workspace_logs": nil, "workspace_file_list": nil,
	"workspace_file_read": nil, "workspace_file_write": nil, "workspace_patch_apply": nil, "workspace_diff": nil, "workspace_export": nil,
	"workspace_reset": nil, "workspace_delete": nil,
}

// instructions tell an agent how the tools belong together.
var instructions = map[Profile]string{
	ProfileVMRun: "vm_run runs one command in a fresh, isolated machine that is then thrown away. Nothing it does reaches the user's computer.",
	ProfileWorkspaceCore: "Work on code in an isolated machine. workspace_create makes a workspace, from a folder of the host with seed_path; then read and write files with " +
		"workspace_file_* and workspace_patch_apply, run commands with workspace_exec, look at your changes with workspace_diff, start over with " +
		"workspace_reset, take results out with workspace_export, and delete the workspace when you are done. vm_run is for one command in a machine that is thrown away.",
}

// MCPServer is a server of the Model Context Protocol whose tools are this package's operations.
type MCPServer struct {
	server *mcp.Server
	stop   func() error
}

// CreateServer makes a server with the tools of a profile. The empty one is ProfileWorkspaceFull.
func (p *Pyro) CreateServer(profile Profile, options ...ServerOption) (*MCPServer, error) {
	var o serverOptions
	for _, set := range options {
		set(&o)
	}
	if err := o.complete(); err != nil {
		return nil, err
	}
	if profile == "" {
		profile = ProfileWorkspaceFull
	}
	if !slices.Contains(Profiles, profile) {
		return nil, invalid("profile is %q: it must be %s, %s or %s", profile, ProfileVMRun, ProfileWorkspaceCore, ProfileWorkspaceFull)
	}
	text := instructions[profile]
	if text == "" {
		text = instructions[ProfileWorkspaceCore] + " Services run in the background, shells are for what is interactive, snapshots keep states to go back to."
	}
	if o.project != "" && profile != ProfileVMRun {
		text += " The user's project is " + project.Name(o.project) + ": workspace_create copies it where seed_path is left out."
	}
	return &MCPServer{server: mcp.NewServer("pyro", Version(), text, p.tools(profile, o.project)), stop: func() error { return nil }}, nil
}

// CreateServer makes a server over operations of its own, which Close ends.
func CreateServer(profile Profile, options ...ServerOption) (*MCPServer, error) {
	p, err := New(Options{})
	if err != nil {
		return nil, err
	}
	s, err := p.CreateServer(profile, options...)
	if err != nil {
		p.Close()
		return nil, err
	}
	s.stop = p.Close
	return s, nil
}

// Run serves one client on a pair of streams, such as the standard ones, until it goes or ctx ends. What a call was doing then is cancelled; workspaces, with their
// services and shells, go on.
func (s *MCPServer) Run(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	return s.server.ServeStdio(ctx, in, out)
}

// Handler serves any number of clients over HTTP, at any path, who show the token.
func (s *MCPServer) Handler(token SecretValue) http.Handler { return s.server.Handler(token) }

// MCPTool is a tool as agents are told of it.
type MCPTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"` // of its arguments: a JSON schema
}

// Tools are those of the server's profile, for programs that give them to a model by another protocol.
func (s *MCPServer) Tools() ([]MCPTool, error) {
	var all []MCPTool
	for _, t := range s.server.Tools() {
		schema, err := t.Schema()
		if err != nil {
			return nil, err
		}
		all = append(all, MCPTool{t.Name, t.Description, schema})
	}
	return all, nil
}

// CallTool calls a tool with arguments as a client would send them, which are checked likewise, and gives its result, long output cut. report, which may be nil, hears
// of what is made meanwhile. A command that fails is a result and no error.
func (s *MCPServer) CallTool(ctx context.Context, name string, arguments json.RawMessage, report func(string)) (json.RawMessage, error) {
	return s.server.Call(ctx, name, arguments, report)
}

// Close ends the sessions of clients, and what CreateServer has begun. The operations of [Pyro.CreateServer] go on.
func (s *MCPServer) Close() error {
	s.server.Close()
	return s.stop()
}

// tools are those of a profile, in the order of the contract. folder is the project, or "".
func (p *Pyro) tools(profile Profile, folder string) (all []mcp.Tool) {
	for _, t := range slices.Concat(p.vmTools(), p.workspaceTools(folder), p.fileTools(), p.snapshotTools(), p.serviceTools(), p.shellTools()) {
		t = t.Titled(titles[t.Name]).Shown(shown)
		without, core := coreTools[t.Name]
		switch {
		case profile == ProfileVMRun && t.Name != "vm_run", profile == ProfileWorkspaceCore && !core:
		case profile == ProfileWorkspaceCore:
			all = append(all, t.Without(without...))
		default:
			all = append(all, t)
		}
	}
	return all
}

// progressOf passes what is made on to an agent.
func progressOf(report func(string)) ProgressFunc {
	return func(e Progress) { report(e.Subject + ": " + e.Phase) }
}

// warnOf logs to an agent's host why a machine is less than it could be. Empty reasons are none.
func warnOf(ctx context.Context, hostCompat, emulated, unlimited string) {
	for _, w := range []struct{ what, why string }{
		{"the command runs on the host, isolated by nothing", hostCompat}, {"the machine is emulated", emulated}, {"the machine's processors and memory are not limited", unlimited},
	} {
		if w.why != "" {
			mcp.Warn(ctx, w.what+": "+w.why)
		}
	}
}

// What many tools have.
var (
	argWorkspace      = mcp.Text("workspace_id", "").Must()
	argVM             = mcp.Text("vm_id", "").Must()
	argEnvironment    = mcp.Text("environment", "such as debian:12, or an OCI image").Must()
	argCommand        = mcp.Text("command", "a line for /bin/sh").Must()
	argTimeout        = mcp.Number("timeout_seconds", "", 1, MaxSeconds).By(DefaultTimeoutSeconds)
	argSecretEnv      = mcp.Pairs("secret_env", "secrets of the workspace to give it: {SECRET: VARIABLE}")
	argMaxBytes       = mcp.Number("max_bytes", "", 1, MaxReadBytes).By(DefaultMaxBytes)
	argRecursive      = mcp.Flag("recursive", "")
	argIncludeGit     = mcp.Flag("include_git", "with recursive: .git too").By(false)
	argIncludeIgnored = mcp.Flag("include_ignored", "of a git checkout also what git ignores").By(false)
	argFull           = mcp.Flag("full", "with modes, owners, times and link targets").By(false)
	argTail           = mcp.Number("tail_lines", "", 1, 1<<20).By(DefaultTailLines)
	argAll            = mcp.Flag("all", "all that is kept")
	argIsolation      = mcp.Text("isolation", "no other is used instead; default: as the server is set, else auto", string(IsolationAuto), string(IsolationKVM), string(IsolationGVisor), string(IsolationTCG))
	argHost           = mcp.Flag("allow_host_compat", "run unisolated on the host where no machine can be started").By(false)
	argEgress         = []mcp.Arg{
		mcp.Texts("egress_allow", "reach nothing else: addresses, CIDRs, names, *.NAME, each with :PORT or not"), mcp.Texts("egress_deny", "reach all but this"),
	}
)

// machineArgs are those of what starts a machine.
func machineArgs(more ...mcp.Arg) []mcp.Arg {
	return append([]mcp.Arg{
		argEnvironment, mcp.Number("vcpu_count", "", 1, MaxVCPUCount).By(DefaultVCPUCount), mcp.Number("mem_mib", "", MinMemMiB, 0).By(DefaultMemMiB),
		mcp.Number("ttl_seconds", "", 1, MaxSeconds).By(DefaultTTLSeconds),
	}, append(more, argIsolation, argHost)...)
}

// onWorkspace and the others are requests that are no more than names.
type (
	onWorkspace struct {
		WorkspaceID string `json:"workspace_id"`
	}
	onVM struct {
		VMID string `json:"vm_id"`
	}
	onSnapshot struct {
		WorkspaceID  string `json:"workspace_id"`
		SnapshotName string `json:"snapshot_name"`
	}
	onService struct {
		WorkspaceID string `json:"workspace_id"`
		ServiceName string `json:"service_name"`
	}
	onShell struct {
		WorkspaceID string `json:"workspace_id"`
		ShellID     string `json:"shell_id"`
	}
)

// environments and workspaces are lists as a tool gives them.
type (
	environments struct {
		Environments []Environment `json:"environments"`
	}
	workspaces struct {
		Count      int                `json:"count"`
		Workspaces []WorkspaceSummary `json:"workspaces"`
	}
)
