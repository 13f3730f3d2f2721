package pyro

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestStats(t *testing.T) {
	p := withWorkspaces(t)
	stopped, running := p.create(t, nil), p.create(t, nil)
	if _, err := p.StopWorkspace(t.Context(), stopped); err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpdateWorkspace(t.Context(), UpdateWorkspaceRequest{WorkspaceID: running, Name: new("loop"), MemMiB: 512}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.OpenShell(t.Context(), OpenShellRequest{WorkspaceID: running}); err != nil {
		t.Fatal(err)
	}
	all, err := p.StatsWorkspaces(t.Context(), StatsWorkspacesRequest{})
	if err != nil || all.Count != 2 || len(all.Workspaces) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, w := range all.Workspaces {
		switch m := w.Machine; {
		case time.Since(w.Time) > time.Minute || w.DiskBytes == 0:
			t.Errorf("%+v", w)
		case w.WorkspaceID == stopped && (m != nil || w.State != StateStopped):
			t.Errorf("a stopped workspace: %+v", w)
		case w.WorkspaceID == running && (m == nil || m.CPUSeconds <= 0 || m.MemBytes <= 0 || m.VCPUCount != 1 || m.MemLimitBytes == 512<<20):
			t.Errorf("a workspace that runs: %+v, %+v", w, m)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seconds []float64
	for stats, err := range p.FollowStats(ctx, StatsWorkspacesRequest{WorkspaceIDs: []string{"loop"}}) {
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			break
		}
		seconds = append(seconds, stats.Workspaces[0].Machine.CPUSeconds)
		if len(stats.Workspaces) != 1 || stats.Workspaces[0].WorkspaceID != running {
			t.Errorf("%+v", stats)
		}
		if len(seconds) == 2 {
			cancel()
		}
	}
	if len(seconds) != 2 || seconds[1] < seconds[0] {
		t.Errorf("processor times: %v", seconds)
	}
}
