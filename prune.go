package pyro

import (
	"context"

	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/upkeep"
)

// PruneEnvironmentsRequest contains the parameters of [Pyro.PruneEnvironments].
type PruneEnvironmentsRequest struct {
	All    bool `json:"all,omitempty"`     // also remove environments that are installed but not in use
	DryRun bool `json:"dry_run,omitempty"` // remove nothing; the result lists what would be removed
}

// PruneResult lists the things that were removed, or that would be removed.
type PruneResult struct {
	DryRun     bool      `json:"dry_run,omitempty"` // nothing was removed
	Removed    []Removed `json:"removed"`
	Kept       []Kept    `json:"kept"`
	FreedBytes int64     `json:"freed_bytes"`
}

// Kept is one thing that was not removed. Layers and caches of builds are not listed.
type Kept struct {
	Kind      string `json:"kind"` // template, environment, kernel, initramfs or content
	Name      string `json:"name,omitempty"`
	Digest    string `json:"digest,omitempty"`
	SizeBytes int64  `json:"size_bytes"`
	Reason    string `json:"reason"` // why it was kept
}

// Removed is one thing that was removed.
type Removed struct {
	// Kind is machine, workspace, template, environment, kernel, initramfs, content or staging. The
	// kind content stands for images without a name, and staging for leftovers of interrupted work.
	Kind       string `json:"kind"`
	Name       string `json:"name,omitempty"`
	Digest     string `json:"digest,omitempty"`
	FreedBytes int64  `json:"freed_bytes"`
}

// PruneEnvironments removes images without a name, outdated templates and kernels, and the
// leftovers of interrupted work. With All, it also removes every environment and template that is
// not in use. It does not remove files of running machines or environments of workspaces. With
// DryRun, it changes nothing and delays no other process. The result can become outdated at any
// time.
func (p *Pyro) PruneEnvironments(ctx context.Context, req PruneEnvironmentsRequest) (*PruneResult, error) {
	pruned, err := upkeep.Prune(ctx, p.workspaces, environment.PruneOptions{All: req.All, DryRun: req.DryRun})
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	result := &PruneResult{DryRun: req.DryRun, Removed: []Removed{}, Kept: []Kept{}, FreedBytes: pruned.FreedBytes}
	for _, r := range pruned.Removed {
		result.Removed = append(result.Removed, Removed(r))
	}
	for _, k := range pruned.Kept {
		result.Kept = append(result.Kept, Kept(k))
	}
	return result, nil
}
