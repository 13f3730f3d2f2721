package operations

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pyro-mcp/pyro"
)

// TestExportOverSeed exports /workspace over the folder of the user. Only files that the agent has
// changed must change.
func TestExportOverSeed(t *testing.T) {
	p := open(t)
	c := serve(t, p, ProfileWorkspaceCore, "").client(t)
	folder := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("edited", "1")
	write("deleted", "1")
	write("both", "1")
	w, err := p.CreateWorkspace(t.Context(), pyro.CreateWorkspaceRequest{Environment: "debian:12", AllowHostCompat: true, SeedPath: folder})
	if err != nil {
		t.Fatal(err)
	}
	call := func(tool string, args map[string]any) map[string]any {
		t.Helper()
		args["workspace_id"] = w.WorkspaceID
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
		if err != nil {
			t.Fatal(err)
		}
		return r.StructuredContent.(map[string]any)
	}
	call("workspace_exec", map[string]any{"command": "printf 2 >edited; rm deleted; printf 2 >added"})
	write("own", "own")
	write("both", "2") // only the host has changed it
	for _, path := range []string{"/workspace", "."} {
		r := call("workspace_export", map[string]any{"path": path, "output_path": folder, "overwrite": true})
		if path == "/workspace" && (r["files"] != 2.0 || !cmp.Equal(r["deleted"], []any{"deleted"})) {
			t.Errorf("%v", r)
		}
		want := map[string]string{"edited": "2", "added": "2", "both": "2", "own": "own"}
		got := map[string]string{}
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			text, err := os.ReadFile(filepath.Join(folder, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			got[e.Name()] = string(text)
		}
		if said := cmp.Diff(want, got); said != "" {
			t.Error(said)
		}
	}
	write("edited", "3")
	call("workspace_exec", map[string]any{"command": "printf 4 >edited"})
	if r := call("workspace_export", map[string]any{"path": "/workspace", "output_path": folder, "overwrite": true}); r["kind"] != string(pyro.Precondition) {
		t.Errorf("%v", r)
	}
	if text, err := os.ReadFile(filepath.Join(folder, "edited")); err != nil || string(text) != "3" {
		t.Errorf("a conflict was overwritten: %q, %v", text, err)
	}
}
