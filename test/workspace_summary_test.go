//go:build machine

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSummary uses a workspace in many ways. It checks the summary of the workspace before and
// after a stop and a reset.
func TestSummary(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := workspaces(t)
	id := p.create("--seed-path", tree(t), "--secret", "TOKEN=hunter2-correct-horse")
	summary := func() map[string]any {
		t.Helper()
		text := p.must("workspace", "summary", id, "--json")
		if strings.Contains(text, "hunter2") {
			t.Errorf("the summary has a secret: %s", text)
		}
		return p.object("workspace", "summary", id)
	}
	// at returns the value at a path that consists of names and indexes.
	at := func(v any, path ...any) string {
		t.Helper()
		for _, part := range path {
			switch part := part.(type) {
			case string:
				v = v.(map[string]any)[part]
			case int:
				v = v.([]any)[part]
			}
		}
		return fmt.Sprint(v)
	}
	want := func(s map[string]any, values map[string]string) {
		t.Helper()
		for path, value := range values {
			var parts []any
			for _, part := range strings.Split(path, ".") {
				parts = append(parts, part)
			}
			if got := at(s, parts...); got != value {
				t.Errorf("%s is %s, not %s", path, got, value)
			}
		}
	}
	nothing := map[string]string{
		"commands.total": "0", "outcome.last_command": "<nil>", "edits.total": "0", "artifacts.total": "0", "services.total": "0", "shells.total": "0",
		"edits.recent": "[]", "artifacts.exports": "[]", "snapshots.deleted_count": "0", "snapshots.created_count": "0",
		"changes.available": "true", "changes.changed": "false",
	}
	want(summary(), nothing)

	host := t.TempDir()
	if err := os.WriteFile(filepath.Join(host, "one"), []byte("12345"), 0o644); err != nil {
		t.Fatal(err)
	}
	p.shell(id, "echo by a command >made; rm crlf; : hunter2-correct-horse")
	p.fails(9, "", "workspace", "exec", id, "--", "sh", "-c", "exit 9")
	p.must("workspace", "file", "write", id, "written", "--text", "text")
	p.must("workspace", "patch", "apply", id, "--patch", "--- a/src/run.sh\n+++ b/src/run.sh\n@@ -1,2 +1,2 @@\n #!/bin/sh\n-echo ran\n+echo patched\n")
	p.must("workspace", "sync", "push", id, host, "--dest", "in")
	p.must("workspace", "export", id, "src", "--output", filepath.Join(host, "src"))
	p.must("workspace", "service", "start", id, "web", "--", "sleep", "1000")
	p.must("workspace", "service", "start", id, "short", "--", "sh", "-c", "exit 5")
	shell := p.openShell(id)
	p.must("workspace", "snapshot", "create", id, "kept")
	p.must("workspace", "snapshot", "create", id, "dropped")
	p.must("workspace", "snapshot", "delete", id, "dropped")
	did := map[string]string{
		"commands.total": "2", "commands.failed": "1", "outcome.last_command.exit_code": "9", "outcome.last_command.command": "sh -c 'exit 9'",
		"edits.total": "3", "outcome.patch_count": "1", "outcome.sync_count": "1", "artifacts.total": "1", "services.total": "2", "services.running": "1",
		"shells.total": "1", "shells.open": "1", "snapshots.named_count": "1", "snapshots.created_count": "1", "snapshots.deleted_count": "1", "outcome.reset_count": "0",
		// The four added paths are "made", "written", "in" and "in/one".
		"changes.summary.added": "4", "changes.summary.modified": "1", "changes.summary.deleted": "1",
	}
	s := summary()
	want(s, did)
	for i, kind := range []string{"write", "patch", "sync"} {
		if got := at(s, "edits", "recent", i, "kind"); got != kind {
			t.Errorf("edit %d is a %s", i, got)
		}
	}
	if got := at(s, "shells", "recent", 0, "shell_id"); got != shell {
		t.Errorf("the shell is %s, not %s", got, shell)
	}

	// The summary must not be lost when the supervisor ends.
	p.must("workspace", "stop", id)
	p.must("workspace", "disk", "export", id, "--output", filepath.Join(host, "disk"))
	s = summary()
	for path, value := range map[string]string{
		"artifacts.total": "2", "services.running": "0", "shells.open": "0", "changes.available": "false", "changes.reason": "it is stopped", "changes.summary": "<nil>",
	} {
		did[path] = value
	}
	for _, gone := range []string{"added", "modified", "deleted"} {
		delete(did, "changes.summary."+gone)
	}
	want(s, did)
	if got := at(s, "artifacts", "exports", 1, "artifact_type"); got != "disk" {
		t.Errorf("the last export is a %s", got)
	}

	p.must("workspace", "start", id)
	fork := strings.TrimSpace(p.must("workspace", "fork", id, "--id-only"))
	want(p.object("workspace", "summary", fork), nothing)
	p.must("workspace", "reset", id)
	want(summary(), nothing)
	want(summary(), map[string]string{"outcome.reset_count": "1", "snapshots.named_count": "1"})
}
