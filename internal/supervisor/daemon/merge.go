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
	// mergeEvery is the interval between two checks of a machine's layers.
	mergeEvery = 30 * time.Second
	// looseLayers is the number of unneeded layers that a disk can have before they are merged.
	// Each layer makes reads slower, but merging a layer copies its content.
	looseLayers = 8
	// crowdedLayers is the number of unneeded layers at which a pause first merges layers. Each
	// pause adds one layer.
	crowdedLayers = 3 * looseLayers
)

// merge keeps the number of layers low. Pauses, forks and deleted snapshots leave unneeded layers
// behind. If the machine is stopped or a snapshot is taken, merge gives up and tries again later.
// The next operation that changes the workspace removes the files of merged layers.
func (d *daemon) merge(ctx context.Context, m machine.Merger) {
	select {
	case <-d.free: // before that, other processes might need the unchanged disks
	case <-ctx.Done():
		return
	}
	for ; ; d.awaitMerge(ctx) {
		if ctx.Err() != nil {
			return
		}
		if err := d.mergeOnce(ctx, m); err != nil && ctx.Err() == nil {
			slog.Error("merge layers", "workspace", d.config.Workspace.ID, "error", err)
		}
	}
}

// awaitMerge waits until the next check.
func (d *daemon) awaitMerge(ctx context.Context) {
	select {
	case <-time.After(mergeEvery):
	case <-ctx.Done():
	}
}

// mergeIfManyLayers merges layers if a disk has too many for a pause. Otherwise it stops a merge
// that currently runs.
func (d *daemon) mergeIfManyLayers(ctx context.Context) error {
	m, ok := d.machine.Machine().(machine.Merger)
	if !ok {
		return nil
	}
	hasManyLayers, err := d.hasManyLayers(ctx)
	if err != nil || !hasManyLayers {
		d.merging.giveUp()
		return err
	}
	return d.mergeOnce(ctx, m)
}

// hasManyLayers reports whether a disk has too many unneeded layers for a pause.
func (d *daemon) hasManyLayers(ctx context.Context) (bool, error) {
	w, err := d.store.Workspace(ctx, d.config.Workspace.ID) // a running merge might be changing d.disks
	if err != nil {
		return false, err
	}
	snapshots, err := d.store.Snapshots(ctx, w.ID)
	for _, of := range disksOf {
		layers := *of(&w.Disks)
		if len(layers)-1-neededLayers(layers, w.Disks.Baseline, snapshots, of) >= crowdedLayers {
			return true, err
		}
	}
	return false, err
}

// disksOf contains, for each disk, a function that returns its layers.
var disksOf = map[machine.Disk]func(*store.Disks) *[]string{
	machine.VolumeDisk: func(d *store.Disks) *[]string { return &d.Volume },
	machine.RootDisk:   func(d *store.Disks) *[]string { return &d.Root },
}

func (d *daemon) mergeOnce(ctx context.Context, m machine.Merger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d.snapshots.Lock()
	defer d.snapshots.Unlock()
	if d.suspended.Load() {
		return nil
	}
	d.merging.begin(cancel)
	defer d.merging.begin(nil)
	for disk, of := range disksOf {
		snapshots, err := d.store.Snapshots(ctx, d.config.Workspace.ID)
		if err != nil {
			return err
		}
		next := d.disks
		layers := *of(&next)
		keep := neededLayers(layers, d.disks.Baseline, snapshots, of)
		if len(layers)-1-keep < looseLayers {
			continue
		}
		if err := m.Merge(ctx, disk, keep); err != nil {
			return err
		}
		*of(&next) = append(layers[:keep:keep], layers[len(layers)-1])
		if err := d.store.SetDisks(context.WithoutCancel(ctx), d.config.Workspace.ID, next); err != nil {
			return err
		}
		d.disks = next
	}
	return nil
}

// neededLayers returns how many layers, counted from the lowest, the baseline or a snapshot needs.
func neededLayers(layers, baseline []string, snapshots []store.Snapshot, of func(*store.Disks) *[]string) int {
	needed := 0
	note := func(others []string) {
		for i, l := range layers {
			if slices.Contains(others, l) {
				needed = max(needed, i+1)
			}
		}
	}
	note(baseline)
	for _, s := range snapshots {
		note(*of(&s.Disks))
	}
	return needed
}

// interruptible is work that stops when more urgent work must run.
type interruptible struct {
	mu     sync.Mutex
	cancel context.CancelFunc // nil while the work does not run
}

// begin sets the function that stops the work. cancel is nil if the work has ended.
func (y *interruptible) begin(cancel context.CancelFunc) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.cancel = cancel
}

// giveUp stops the work if it runs.
func (y *interruptible) giveUp() {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.cancel != nil {
		y.cancel()
	}
}
