package pyro

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestSummaryIsBounded checks that a summary lists only the last operations if there are many.
func TestSummaryIsBounded(t *testing.T) {
	p := withWorkspaces(t)
	id := p.create(t, nil)
	const many = MaxRecent + 3
	for n := range many {
		if _, err := p.WriteWorkspaceFile(t.Context(), WriteWorkspaceFileRequest{WorkspaceID: id, Path: fmt.Sprintf("f%02d", n), Text: "x"}); err != nil {
			t.Fatal(err)
		}
		patch := fmt.Sprintf("--- /dev/null\n+++ b/p%02d\n@@ -0,0 +1 @@\n+x\n", n)
		if _, err := p.ApplyWorkspacePatch(t.Context(), ApplyWorkspacePatchRequest{WorkspaceID: id, Patch: patch}); err != nil {
			t.Fatal(err)
		}
	}
	long := strings.Repeat("ö", MaxRecentLineSize)
	line := fmt.Sprintf("for i in $(seq %d); do echo >c$i; done; : %s; exit 7", MaxRecentChanges, long)
	if _, err := p.ExecWorkspace(t.Context(), ExecWorkspaceRequest{WorkspaceID: id, Command: line}); err != nil {
		t.Fatal(err)
	}
	a, err := p.SummarizeWorkspace(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if o := a.Outcome; o.EditCount != 2*many || o.PatchCount != many || o.SyncCount != 0 || o.CommandCount != 1 || a.Commands.Failed != 1 {
		t.Errorf("%+v", o)
	}
	c := a.Outcome.LastCommand
	if c == nil || c.ExitCode == nil || *c.ExitCode != 7 || len(c.Command) > MaxRecentLineSize+len("…") || !strings.HasSuffix(c.Command, "ö…") ||
		strings.Contains(c.Command, "\uFFFD") {
		t.Errorf("%+v", c)
	}
	if n := len(a.Edits.Recent); n != MaxRecent || a.Edits.Recent[n-1].Paths[0] != fmt.Sprintf("/workspace/p%02d", many-1) ||
		a.Edits.Recent[n-2].Path != fmt.Sprintf("/workspace/f%02d", many-1) {
		t.Errorf("%+v", a.Edits.Recent)
	}
	var before time.Time
	for _, e := range a.Edits.Recent {
		if e.At.Before(before) {
			t.Errorf("not in the order of time: %+v", a.Edits.Recent)
		}
		before = e.At
	}
	if c := a.Changes; !c.Available || !c.Cut || len(c.Entries) != MaxRecentChanges || c.Summary.Added != MaxRecentChanges+2*many || c.Summary.PatchOmitted != 0 {
		t.Errorf("%+v", c.Summary)
	}
}
