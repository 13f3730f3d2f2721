package daemon

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/store"
)

const (
	// mergeEvery is how often a machine's layers are looked at.
	mergeEvery = 30 * time.Second
	// looseLayers is how many layers that nobody needs a disk may have between those that are needed and the one that is written: each of them is one more
	// for the machine to look through, and to take them away costs copying what is in them.
	looseLayers = 8
	// crowdedLayers is how many of them a machine that is to be paused has none more than: it comes back with one more.
	crowdedLayers = 3 * looseLayers
)

// merge keeps the layers of a disk few, as each pause leaves one more, and so do forks and snapshots that were deleted. It gives up when the machine is to stop or a
// snapshot is to be taken, and begins anew later. The files are removed by whoever next changes what the workspace is.
func (d *daemon) merge(ctx context.Context, m machine.Merger) {
	select {
	case <-d.free: // until then others may need the disks as they were
	case <-ctx.Done():
		return
	}
	for ; ; d.awaitMerge(ctx) {
		if ctx.Err() != nil {
			return
		}
		if err := d.mergeOnce(ctx, m); err != nil && ctx.Err() == nil {
			slog.Error("merge layers", "workspace", d.order.Workspace.ID, "error", err)
		}
	}
}

// awaitMerge waits until it is time to look again.
func (d *daemon) awaitMerge(ctx context.Context) {
	select {
	case <-time.After(mergeEvery):
	case <-ctx.Done():
	}
}

// makeRoom merges layers where there are so many that no more should come, and gives up a merge that goes on where there are not.
func (d *daemon) makeRoom(ctx context.Context) error {
	m, ok := d.machine.Machine().(machine.Merger)
	if !ok {
		return nil
	}
	crowded, err := d.crowded(ctx)
	if err != nil || !crowded {
		d.merging.giveUp()
		return err
	}
	return d.mergeOnce(ctx, m)
}

// crowded tells whether a disk has too many layers that nobody else needs.
func (d *daemon) crowded(ctx context.Context) (bool, error) {
	w, err := d.store.Workspace(ctx, d.order.Workspace.ID) // which of them there are is another's to say while layers are merged
	if err != nil {
		return false, err
	}
	kept, err := d.store.Snapshots(ctx, w.ID)
	for _, of := range disksOf {
		layers := *of(&w.Disks)
		if len(layers)-1-neededLayers(layers, w.Disks.Baseline, kept, of) >= crowdedLayers {
			return true, err
		}
	}
	return false, err
}

// disksOf are the layers of each disk.
var disksOf = map[machine.Disk]func(*store.Disks) *[]string{
	machine.VolumeDisk: func(d *store.Disks) *[]string { return &d.Volume },
	machine.RootDisk:   func(d *store.Disks) *[]string { return &d.Root },
}

func (d *daemon) mergeOnce(ctx context.Context, m machine.Merger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d.snapshots.Lock()
	defer d.snapshots.Unlock()
	d.merging.begin(cancel)
	defer d.merging.begin(nil)
	for disk, of := range disksOf {
		kept, err := d.store.Snapshots(ctx, d.order.Workspace.ID)
		if err != nil {
			return err
		}
		next := d.disks
		layers := *of(&next)
		keep := neededLayers(layers, d.disks.Baseline, kept, of)
		if len(layers)-1-keep < looseLayers {
			continue
		}
		if err := m.Merge(ctx, disk, keep); err != nil {
			return err
		}
		*of(&next) = append(layers[:keep:keep], layers[len(layers)-1])
		if err := d.store.SetDisks(context.WithoutCancel(ctx), d.order.Workspace.ID, next); err != nil {
			return err
		}
		d.disks = next
	}
	return nil
}

// neededLayers is how many of the lowest layers somebody else needs: the baseline, and the snapshots.
func neededLayers(layers, baseline []string, kept []store.Snapshot, of func(*store.Disks) *[]string) int {
	needed := 0
	note := func(others []string) {
		for i, l := range layers {
			if slices.Contains(others, l) {
				needed = max(needed, i+1)
			}
		}
	}
	note(baseline)
	for _, s := range kept {
		note(*of(&s.Disks))
	}
	return needed
}

// yielding is work that is given up when something else wants its turn.
type yielding struct {
	mu     sync.Mutex
	cancel context.CancelFunc // nil while nothing goes on
}

// begin says what gives the work up; nil at its end.
func (y *yielding) begin(cancel context.CancelFunc) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.cancel = cancel
}

// giveUp has work that goes on be given up.
func (y *yielding) giveUp() {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.cancel != nil {
		y.cancel()
	}
}
