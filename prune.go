package pyro

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine/template"
	"github.com/pyro-mcp/pyro/internal/preparation"
	"github.com/pyro-mcp/pyro/internal/supervisor"
)

// PruneEnvironmentsRequest says how much to remove.
type PruneEnvironmentsRequest struct {
	All bool `json:"all,omitempty"` // also what is installed but not in use
}

// PruneResult tells what was removed.
type PruneResult struct {
	Removed    []Removed `json:"removed"`
	FreedBytes int64     `json:"freed_bytes"`
}

// Removed is one thing that was removed.
type Removed struct {
	Kind       string `json:"kind"` // machine, workspace, template, environment, content that no name stands for, kernel, initramfs, or staging of interrupted work
	Name       string `json:"name,omitempty"`
	Digest     string `json:"digest,omitempty"`
	FreedBytes int64  `json:"freed_bytes"`
}

// PruneEnvironments removes images that no name stands for, templates whose environment is gone, templates and kernels that have been superseded, and what
// interrupted work left; with All every environment and template that is not in use. What a running machine uses, and what a
// workspace began with, stays in either case.
func (p *Pyro) PruneEnvironments(ctx context.Context, req PruneEnvironmentsRequest) (*PruneResult, error) {
	result := &PruneResult{Removed: []Removed{}}
	swept, err := supervisor.Sweep(p.dirs)
	if err != nil {
		return nil, err
	}
	if swept > 0 {
		result.add(Removed{Kind: "machine", Name: strconv.Itoa(swept) + " whose pyro was killed"})
	}
	left, err := p.workspaces.Sweep(ctx)
	if err != nil {
		return nil, because(ctx, err)
	}
	if left > 0 {
		result.add(Removed{Kind: "workspace", Name: strconv.Itoa(left) + " whose creation or deletion was interrupted"})
	}
	keep, err := p.records.Digests(ctx)
	if err != nil {
		return nil, because(ctx, err)
	}
	pruned, err := p.store.Prune(ctx, environment.PruneOptions{All: req.All, Keep: keep})
	if err != nil {
		return nil, fault.Wrap(because(ctx, err), "prune environments", "")
	}
	for _, r := range pruned.Removed {
		result.add(Removed(r))
	}
	return result, p.pruneTemplates(ctx, req.All, keep, result)
}

// pruneTemplates comes after the environments: a template without its environment is never used again, and neither, mostly, is one that was made anew
// for the same machines, with another kernel, agent or QEMU.
func (p *Pyro) pruneTemplates(ctx context.Context, all bool, keep map[string]bool, result *PruneResult) error {
	installed := map[string]bool{}
	environments, err := p.store.List(ctx)
	if err != nil {
		return err
	}
	for _, e := range environments {
		installed[e.Digest] = e.Installed && !all
	}
	for digest := range keep {
		installed[digest] = true
	}
	store := template.Store{Dir: p.dirs.Templates()}
	templates, err := store.List()
	if err != nil {
		return err
	}
	newest := p.newest(templates)
	removed, err := store.Prune(func(t template.Info) bool { return (t.Key.Root == "" || installed[t.Key.Root]) && newest[t.Name] })
	for _, t := range removed {
		result.add(Removed{Kind: "template", Name: t.Name, FreedBytes: t.SizeBytes})
	}
	if err != nil {
		return err
	}
	return preparation.Prune(p.dirs, func(digest string) bool { return installed[digest] })
}

// newest names the template that was made last for each machine.
func (p *Pyro) newest(templates []template.Info) map[string]bool {
	type machine struct{ form, root, arguments, host string }
	type made struct {
		name string
		at   time.Time
	}
	last := map[machine]made{}
	for _, t := range templates {
		info, err := os.Stat(filepath.Join(p.dirs.Templates(), t.Name))
		if err != nil {
			continue // it is gone already
		}
		m := machine{t.Key.Form, t.Key.Root, t.Key.Arguments, t.Key.Host}
		if info.ModTime().After(last[m].at) {
			last[m] = made{t.Name, info.ModTime()}
		}
	}
	names := map[string]bool{}
	for _, m := range last {
		names[m.name] = true
	}
	return names
}

func (r *PruneResult) add(removed Removed) {
	r.Removed = append(r.Removed, removed)
	r.FreedBytes += removed.FreedBytes
}
