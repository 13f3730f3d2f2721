//go:build machine

package test

import (
	"strings"
	"testing"
)

// TestForkOfAPausedWorkspace has services go on in what is forked from a workspace that is paused, with all that they have printed.
func TestForkOfAPausedWorkspace(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	id := p.create()
	p.must("workspace", "service", "start", id, "counter", "--", "sh", "-c", "n=0; while :; do n=$((n+1)); echo $n; sleep 0.05; done")
	p.object("workspace", "pause", id)
	fork := strings.TrimSpace(p.must("workspace", "fork", id, "--live", "--id-only"))
	if s := p.object("workspace", "service", "status", fork, "counter"); s["state"] != "running" {
		t.Errorf("in the fork it is %v", s)
	}
	logs := p.run(nil, "workspace", "service", "logs", fork, "counter")
	if logs.code != 0 || !strings.HasPrefix(logs.stdout, "1\n2\n") {
		t.Errorf("in the fork it has printed %.100q: %s", logs.stdout, logs.stderr)
	}
	p.object("workspace", "resume", id)
	if s := p.object("workspace", "service", "status", id, "counter"); s["state"] != "running" {
		t.Errorf("in the source it is %v", s)
	}
}
