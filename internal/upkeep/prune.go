// Package upkeep maintains a host: it removes files that are no longer needed, prepares the start
// of machines, and checks whether the host can run machines.
package upkeep

import (
	"context"
	"os"
	"path/filepath"
	"strconv"

	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine/template"
	"github.com/pyro-mcp/pyro/internal/preparation"
	"github.com/pyro-mcp/pyro/internal/supervisor"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// Prune removes the leftovers of killed processes, images without a name, and outdated templates
// and kernels. With o.All, it also removes every environment and template that is not in use. It
// does not remove the files of running machines and of workspaces. With o.DryRun, it removes
// nothing and returns the list of files that it would remove. Prune ignores o.Keep. If Prune fails,
// it also returns the things that it has already removed.
func Prune(ctx context.Context, m *workspace.Manager, o environment.PruneOptions) (done environment.Pruned, err error) {
	done.Removed = []environment.Removed{}
	machines, workspaces, err := leftovers(ctx, m, o.DryRun)
	if machines > 0 {
		done.Removed = append(done.Removed, environment.Removed{Kind: "machine", Name: strconv.Itoa(machines) + " whose pyro was killed"})
	}
	if workspaces > 0 {
		done.Removed = append(done.Removed, environment.Removed{Kind: "workspace", Name: strconv.Itoa(workspaces) + " whose creation or deletion was interrupted"})
	}
	if err != nil {
		return done, err
	}
	o.Keep = m.Store.Digests
	pruned, err := m.Environments.Prune(ctx, o)
	done.Removed, done.Kept = append(done.Removed, pruned.Removed...), pruned.Kept
	if err != nil {
		return done, fault.Wrap(err, "prune environments", "")
	}
	err = pruneTemplates(ctx, m, o, &done)
	done.FreedBytes = 0
	for _, r := range done.Removed {
		done.FreedBytes += r.FreedBytes
	}
	return done, err
}

// leftovers removes what killed processes left behind: folders of machines, and folders of
// workspaces without a record. It returns their numbers. A dry run only counts them.
func leftovers(ctx context.Context, m *workspace.Manager, dry bool) (machines, workspaces int, err error) {
	if !dry {
		if machines, err = supervisor.Sweep(m.Dirs); err == nil {
			workspaces, err = m.Sweep(ctx)
		}
		return machines, workspaces, err
	}
	dead, err := supervisor.Dead(m.Dirs)
	if err != nil {
		return 0, 0, err
	}
	orphans, err := m.Orphans(ctx)
	return len(dead), len(orphans), err
}

// pruneTemplates removes templates whose environment no longer exists, and all but the newest
// template for each form of machine. An older template has another kernel, agent or QEMU and is
// never used again. Call pruneTemplates after environments have been removed.
func pruneTemplates(ctx context.Context, m *workspace.Manager, o environment.PruneOptions, done *environment.Pruned) error {
	environments, err := m.Environments.List(ctx)
	if err != nil {
		return err
	}
	installed := map[string]bool{}
	for _, e := range environments {
		installed[e.Digest] = e.Installed && !o.All
	}
	used, err := o.Keep(ctx)
	if err != nil {
		return err
	}
	for digest := range used {
		installed[digest] = true
	}
	store := template.Store{Dir: m.Dirs.Templates()}
	templates, err := store.List()
	if err != nil {
		return err
	}
	newest := newest(store.Dir, templates)
	needed := func(t template.Info) bool { return (t.Key.Root == "" || installed[t.Key.Root]) && newest[t.Name] }
	gone := map[string]bool{}
	if o.DryRun {
		for _, t := range templates {
			if needed(t) {
				continue // new machines open it, so it must not be locked even for a moment
			}
			used, err := store.InUse(t.Name)
			if err != nil {
				return err
			}
			gone[t.Name] = !used
		}
	} else {
		var pruned []template.Info
		pruned, err = store.Prune(needed)
		for _, t := range pruned {
			gone[t.Name] = true
		}
	}
	for _, t := range templates {
		switch {
		case gone[t.Name]:
			done.Removed = append(done.Removed, environment.Removed{Kind: "template", Name: t.Name, FreedBytes: t.SizeBytes})
		case needed(t):
			done.Kept = append(done.Kept, environment.Kept{Kind: "template", Name: t.Name, SizeBytes: t.SizeBytes, Reason: "new machines start from it"})
		default:
			done.Kept = append(done.Kept, environment.Kept{Kind: "template", Name: t.Name, SizeBytes: t.SizeBytes, Reason: "a machine uses it"})
		}
	}
	if err != nil || o.DryRun {
		return err
	}
	return preparation.Prune(m.Dirs, func(digest string) bool { return installed[digest] })
}

// newest returns the name of the newest template for each form of machine.
func newest(dir string, templates []template.Info) map[string]bool {
	type machine struct{ form, root, arguments, host string }
	last := map[machine]os.FileInfo{}
	for _, t := range templates {
		info, err := os.Stat(filepath.Join(dir, t.Name))
		if err != nil {
			continue // the template no longer exists
		}
		m := machine{t.Key.Form, t.Key.Root, t.Key.Arguments, t.Key.Host}
		if last[m] == nil || info.ModTime().After(last[m].ModTime()) {
			last[m] = info
		}
	}
	names := map[string]bool{}
	for _, info := range last {
		names[info.Name()] = true
	}
	return names
}
