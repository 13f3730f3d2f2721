package operations

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pyro-mcp/pyro"
)

var (
	actions  = regexp.MustCompile(`fault\.Act\("([^"]*)"`)
	commands = regexp.MustCompile("(?:Hint[(:]|Hint = )[^\n]*[\"`]pyro workspace")
)

// TestHintsNameTools checks the hints in all sources. Each tool in a hint exists. Only hints of the
// command line contain commands on workspaces.
func TestHintsNameTools(t *testing.T) {
	tools, found := strings.Fields(contractTools), 0
	err := fs.WalkDir(os.DirFS("../.."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && slices.Contains([]string{"internal/cli", "internal/hostagent", "runsc", "examples", "test", ".git"}, path) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(filepath.Join("../..", path))
		for _, m := range actions.FindAllStringSubmatch(string(text), -1) {
			if found++; !slices.Contains(tools, m[1]) {
				t.Errorf("%s: unknown tool %s", path, m[1])
			}
		}
		for _, line := range strings.Split(string(text), "\n") {
			if commands.MatchString(line) && !actions.MatchString(line) {
				t.Errorf("%s: the hint for an agent is a CLI command: %s", path, strings.TrimSpace(line))
			}
		}
		return err
	})
	if err != nil || found < 20 {
		t.Errorf("%d actions, %v", found, err)
	}
}

// TestHintsForAgents checks that agents get hints with tools, and people get hints with commands.
func TestHintsForAgents(t *testing.T) {
	p := open(t)
	w, err := p.CreateWorkspace(t.Context(), pyro.CreateWorkspaceRequest{Environment: "debian:12", AllowHostCompat: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.StopWorkspace(t.Context(), w.WorkspaceID); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		profile    Profile
		tool, hint string
		args       map[string]any
	}{
		{ProfileWorkspaceFull, "workspace_exec", "call workspace_start", map[string]any{"command": "true"}},
		{ProfileWorkspaceCore, "workspace_exec", "call workspace_start (this server does not offer it: ask the user)", map[string]any{"command": "true"}},
		{ProfileWorkspaceCore, "workspace_status", "call workspace_list", map[string]any{"workspace_id": "ws-0"}},
		{ProfileWorkspaceCore, "workspace_create", "call vm_list_environments (this server does not offer it: ask the user)", map[string]any{"environment": "debain:12"}},
		{ProfileWorkspaceFull, "snapshot_delete", "call snapshot_list", map[string]any{"snapshot_name": "none"}},
	} {
		s := serve(t, p, row.profile, "")
		if row.args["workspace_id"] == nil && row.tool != "workspace_create" {
			row.args["workspace_id"] = w.WorkspaceID
		}
		r, err := s.client(t).CallTool(t.Context(), &sdk.CallToolParams{Name: row.tool, Arguments: row.args})
		if err != nil || !r.IsError || r.StructuredContent.(map[string]any)["hint"] != row.hint || !strings.Contains(r.Content[0].(*sdk.TextContent).Text, "hint: "+row.hint) {
			t.Errorf("%s: %+v, %v", row.tool, r.StructuredContent, err)
		}
	}
	if _, err := p.ExecWorkspace(t.Context(), pyro.ExecWorkspaceRequest{WorkspaceID: w.WorkspaceID, Command: "true"}); pyro.HintOf(err) != "pyro workspace start "+w.WorkspaceID {
		t.Errorf("%v: %q", err, pyro.HintOf(err))
	}
}
