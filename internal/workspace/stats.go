package workspace

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// Sample is the resource use of a workspace at one point in time.
type Sample struct {
	Workspace
	At        time.Time
	Usage     *Usage // nil if it does not run, or if its supervisor did not answer
	DiskBytes int64  // size of its folder on the host
}

const (
	// sampleTimeout is the maximum time to wait for one supervisor.
	sampleTimeout = 5 * time.Second
	// maxSampling is the maximum number of workspaces that are sampled at the same time.
	maxSampling = 16
)

// Samples samples workspaces, or all workspaces if ids is empty. This does not count as use of the
// workspaces. before contains the previous samples. It saves work, because the size of a workspace
// that does not run is measured only once.
func (m *Manager) Samples(ctx context.Context, ids []string, before []Sample) ([]Sample, error) {
	var all []Workspace
	for _, id := range ids {
		w, err := m.Get(ctx, store.KindWorkspace, id)
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	if len(ids) == 0 {
		var err error
		if all, err = m.List(ctx, store.KindWorkspace); err != nil {
			return nil, err
		}
	}
	samples, errs := make([]Sample, len(all)), make([]error, len(all))
	slots := make(chan struct{}, maxSampling)
	var sampling sync.WaitGroup
	for i, w := range all {
		slots <- struct{}{}
		sampling.Go(func() {
			defer func() { <-slots }()
			var last Sample
			if at := slices.IndexFunc(before, func(s Sample) bool { return s.ID == w.ID }); at >= 0 {
				last = before[at]
			}
			samples[i], errs[i] = m.sample(ctx, w, last)
		})
	}
	sampling.Wait()
	var present []Sample
	for i, s := range samples {
		if err := errs[i]; err != nil && (len(ids) > 0 || fault.KindOf(err) != fault.NotFound) {
			return nil, err
		} else if err == nil {
			present = append(present, s)
		}
	}
	return present, ctx.Err()
}

// sample samples one workspace.
func (m *Manager) sample(ctx context.Context, w Workspace, last Sample) (Sample, error) {
	s := Sample{Workspace: w, At: time.Now()}
	if w.State == Started {
		u, err := m.usage(ctx, w.ID)
		s.At = time.Now()
		if err == nil {
			s.Usage, s.DiskBytes = &u, u.DiskBytes
			return s, nil
		}
		if s.Workspace, err = m.Get(ctx, store.KindWorkspace, w.ID); err != nil { // it might have ended
			return s, err
		}
		if s.State == Started {
			s.DiskBytes = last.DiskBytes
			return s, ctx.Err()
		}
	}
	if last.State == s.State && last.Starts == s.Starts {
		s.DiskBytes = last.DiskBytes
		return s, nil
	}
	size, _, err := tree.Size(ctx, string(m.folder(w.ID)))
	if errors.Is(err, fs.ErrNotExist) { // the workspace is being deleted or changed
		err = ctx.Err()
	}
	s.DiskBytes = size
	return s, fault.Wrap(err, "measure workspace", w.ID)
}

// usage asks the supervisor of a workspace.
func (m *Manager) usage(ctx context.Context, id string) (Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	c, err := remote.Watch(ctx, m.folder(id))
	if err != nil {
		return Usage{}, err
	}
	defer c.Close()
	return c.Usage(ctx)
}

// Load returns the number of processors that a workspace used on average between two samples. It is
// 0 if the workspace did not run, or if another machine took its place.
func (s Sample) Load(last Sample) float64 {
	if s.Usage == nil || last.Usage == nil || s.Usage.Supervisor != last.Usage.Supervisor || !s.At.After(last.At) {
		return 0
	}
	return max(float64(s.Usage.CPU-last.Usage.CPU)/float64(s.At.Sub(last.At)), 0)
}
