package operations

import (
	"slices"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/rpc"
)

// TestRemoteOperations checks that operations for other hosts take a workspace and no path of the
// host. New operations can't be called from other hosts until somebody decides that.
func TestRemoteOperations(t *testing.T) {
	all := RemoteOperations(nil)
	for name, o := range all {
		has := func(field string) bool {
			return slices.ContainsFunc(o.Fields(), func(f rpc.Field) bool { return f.Name == field })
		}
		if !has("workspace_id") || has("seed_path") || has("source_path") || has("output_path") || has("secrets") || has("labels") {
			t.Errorf("%s takes %v", name, o.Fields())
		}
	}
	for _, name := range strings.Fields(`create_workspace delete_workspace stop_workspace start_workspace pause_workspace resume_workspace fork_workspace update_workspace
		push_workspace_sync export_workspace export_workspace_disk list_workspaces run_in_vm create_vm doctor prune_environments`) {
		if _, ok := all[name]; ok {
			t.Errorf("%s can be called from another host", name)
		}
	}
	if len(all) < 25 {
		t.Errorf("only %d operations", len(all))
	}
}
