package operations

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/mcp"
	"github.com/pyro-mcp/pyro/internal/project"
)

// Profile is a set of tools that an agent gets.
type Profile string

// The profiles.
const (
	ProfileVMRun         Profile = "vm-run"         // vm_run alone
	ProfileWorkspaceCore Profile = "workspace-core" // the tools for work on files; a good first choice
	ProfileWorkspaceFull Profile = "workspace-full" // everything
)

// Profiles lists all profiles, the smallest first.
var Profiles = []Profile{ProfileVMRun, ProfileWorkspaceCore, ProfileWorkspaceFull}

// instructions tell an agent how to use the tools together.
var instructions = map[Profile]string{
	ProfileVMRun: "vm_run runs one command in a fresh, isolated machine that is then deleted. Nothing it does reaches the user's computer.",
	ProfileWorkspaceCore: "Work on code in an isolated machine. workspace_create makes a workspace, from a folder of the host with seed_path; then read and write files with " +
		"workspace_file_* and workspace_patch_apply, run commands with workspace_exec, see your changes with workspace_diff, start over with " +
		"workspace_reset, take results out with workspace_export, and delete the workspace when you are done. vm_run runs one command in a machine of its own.",
}

// Server serves operations to agents over the Model Context Protocol.
type Server struct{ server *mcp.Server }

// NewServer returns a server with the tools of a profile. An empty profile means
// ProfileWorkspaceFull. The parameter folder is the path of the user's project, or empty. The tool
// workspace_create copies this project if an agent names no seed. The caller must Close the server.
// Close does not close p.
func NewServer(p *pyro.Pyro, profile Profile, folder string) (*Server, error) {
	if profile == "" {
		profile = ProfileWorkspaceFull
	}
	if !slices.Contains(Profiles, profile) {
		return nil, fault.Newf(fault.Invalid, "profile is %q: it must be %s, %s or %s", profile, ProfileVMRun, ProfileWorkspaceCore, ProfileWorkspaceFull)
	}
	folder, err := projectFolder(folder)
	if err != nil {
		return nil, err
	}
	text := instructions[profile]
	if text == "" {
		text = instructions[ProfileWorkspaceCore] + " Services run in the background, shells run interactive programs, snapshots save states to return to."
	}
	if folder != "" && profile != ProfileVMRun {
		text += " The user's project is " + project.Name(folder) + ": workspace_create copies it if seed_path is omitted."
	}
	return &Server{mcp.NewServer("pyro", pyro.Version(), text, tools(p, profile, folder))}, nil
}

// projectFolder returns the absolute path of a project, and checks that it is a folder. If path is
// empty, the result is empty.
func projectFolder(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fault.Wrap(err, "use the project", path)
	}
	if !info.IsDir() {
		return "", fault.New(fault.Invalid, "use the project", path, "it is not a folder")
	}
	return filepath.Abs(path)
}

// tools returns the tools of a profile, in the order of the table.
func tools(p *pyro.Pyro, profile Profile, project string) (all []mcp.Tool) {
	for _, o := range table(project) {
		t := o.Tool
		if t.Name == "" || profile == ProfileVMRun && t.Name != "vm_run" || profile == ProfileWorkspaceCore && !t.core {
			continue
		}
		do := t.do
		if do == nil {
			do = o.do
		}
		tool := do.tool(t, p)
		if profile == ProfileWorkspaceCore {
			tool = tool.Without(t.withoutArgs...)
		}
		all = append(all, tool)
	}
	return all
}

// Run serves one client on a pair of streams. When the input ends, Run finishes the calls in
// progress. When no process reads the output any more, or ctx ends, it cancels them. Workspaces,
// with their services and shells, keep running.
func (s *Server) Run(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	return s.server.ServeStdio(ctx, in, out)
}

// Handler serves any number of clients over HTTP at any path. Clients must send the token as a
// bearer token.
func (s *Server) Handler(token pyro.SecretValue) http.Handler { return s.server.Handler(token) }

// ToolInfo describes a tool, for programs that offer it to a model over another protocol.
type ToolInfo struct {
	Name        string
	Description string
	InputSchema json.RawMessage // JSON schema of the arguments
}

// Tools returns the tools of the server's profile.
func (s *Server) Tools() ([]ToolInfo, error) {
	var all []ToolInfo
	for _, t := range s.server.Tools() {
		schema, err := t.Schema()
		if err != nil {
			return nil, err
		}
		all = append(all, ToolInfo{t.Name, t.Description, schema})
	}
	return all, nil
}

// CallTool calls a tool. It checks the arguments and shortens the result as for a client. The
// function report receives progress, and can be nil. A command that fails is a result, not an
// error.
func (s *Server) CallTool(ctx context.Context, name string, arguments json.RawMessage, report func(string)) (json.RawMessage, error) {
	return s.server.Call(ctx, name, arguments, report)
}

// Close ends all client sessions. It is idempotent.
func (s *Server) Close() error {
	s.server.Close()
	return nil
}
