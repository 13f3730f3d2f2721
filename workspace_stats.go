package pyro

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/pyro-mcp/pyro/internal/workspace"
)

// WorkspaceStats is the resource use of a workspace at one point in time.
type WorkspaceStats struct {
	WorkspaceID string         `json:"workspace_id"`
	Name        string         `json:"name"`
	State       WorkspaceState `json:"state"`
	Time        time.Time      `json:"time"`
	DiskBytes   int64          `json:"disk_bytes"` // size of all its files on the host, with snapshots; a few seconds old.
	Machine     *MachineStats  `json:"machine"`    // nil if the workspace does not run, or if its machine did not answer
}

// MachineStats is the resource use of a machine at one point in time.
type MachineStats struct {
	CPUPercent    float64 `json:"cpu_percent"` // load since the previous sample; 100 is one processor
	CPUSeconds    float64 `json:"cpu_seconds"` // processor time on the host, since the machine was started or resumed
	VCPUCount     int     `json:"vcpu_count"`
	MemBytes      int64   `json:"mem_bytes"` // used inside the machine
	MemLimitBytes int64   `json:"mem_limit_bytes"`

	// Payload that the machine exchanged with other computers since it was started or resumed. DNS
	// and published ports do not count.
	SentBytes     int64 `json:"sent_bytes"`
	ReceivedBytes int64 `json:"received_bytes"`
}

// StatsWorkspacesRequest names workspaces.
type StatsWorkspacesRequest struct {
	WorkspaceIDs []string `json:"workspace_ids,omitempty"` // empty: all workspaces
}

// WorkspacesStats are the stats of several workspaces, in the order of the request. If it named
// none, the most recently used workspace comes first.
type WorkspacesStats struct {
	Count      int              `json:"count"`
	Workspaces []WorkspaceStats `json:"workspaces"`
}

// statsInterval is the time between two samples of FollowStats. firstInterval is the time between
// the first two samples, which the first processor load needs.
const (
	statsInterval = time.Second
	firstInterval = 500 * time.Millisecond
)

// StatsWorkspaces returns how many resources workspaces use. If one of them runs, the call takes
// half a second, to measure the load of the processors. It does not count as use of the workspaces.
func (p *Pyro) StatsWorkspaces(ctx context.Context, req StatsWorkspacesRequest) (*WorkspacesStats, error) {
	for stats, err := range p.FollowStats(ctx, req) {
		return stats, err
	}
	return nil, context.Cause(ctx)
}

// FollowStats yields the resources that workspaces use, each second. It ends with an error when ctx
// ends, or when a workspace of the request is deleted. Nothing is measured after the loop has
// ended. Following does not count as use of the workspaces.
func (p *Pyro) FollowStats(ctx context.Context, req StatsWorkspacesRequest) iter.Seq2[*WorkspacesStats, error] {
	return func(yield func(*WorkspacesStats, error) bool) {
		ids := slices.Clone(req.WorkspaceIDs)
		for i := range ids {
			if err := p.named(ctx, &ids[i]); err != nil {
				yield(nil, err)
				return
			}
		}
		last, err := p.workspaces.Samples(ctx, ids, nil)
		wait := firstInterval
		if !slices.ContainsFunc(last, func(s workspace.Sample) bool { return s.Usage != nil }) {
			wait = 0
		}
		for err == nil {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
			var now []workspace.Sample
			if now, err = p.workspaces.Samples(ctx, ids, last); err == nil && !yield(statsOf(now, last), nil) {
				return
			}
			last, wait = now, statsInterval
		}
		yield(nil, causeOf(ctx, err))
	}
}

// statsOf converts samples. last contains the previous samples.
func statsOf(samples, last []workspace.Sample) *WorkspacesStats {
	all := &WorkspacesStats{Count: len(samples), Workspaces: []WorkspaceStats{}}
	for _, s := range samples {
		one := WorkspaceStats{WorkspaceID: s.ID, Name: s.Name, State: WorkspaceState(s.State), Time: s.At.UTC(), DiskBytes: s.DiskBytes}
		if u := s.Usage; u != nil {
			shape := s.Spec.CurrentShape()
			one.Machine = &MachineStats{
				CPUSeconds: u.CPU.Seconds(), VCPUCount: shape.VCPUCount, MemBytes: u.MemBytes, MemLimitBytes: int64(shape.MemMiB) << 20,
				SentBytes: u.SentBytes, ReceivedBytes: u.ReceivedBytes,
			}
			if i := slices.IndexFunc(last, func(before workspace.Sample) bool { return before.ID == s.ID }); i >= 0 {
				one.Machine.CPUPercent = 100 * s.Load(last[i])
			}
		}
		all.Workspaces = append(all.Workspaces, one)
	}
	return all
}
