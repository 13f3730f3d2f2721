package hostagent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// point is the resource usage of a sandbox: at one time, or the mean of an interval that ended at
// that time.
type point struct {
	Unix      int64
	CPU       float64 // percentage of all processors of the sandbox
	MemBytes  int64
	DiskBytes int64
}

// tier is a ring of points at a fixed interval.
type tier struct {
	every    time.Duration
	capacity int
	points   []point // oldest first
	sum      point   // sum of the samples since the last point
	count    int64
	slot     int64 // number of the interval of sum: the time since 1970 divided by every
}

// The tiers. Each tier after the first contains means of the tier before it.
const (
	tier10m = iota
	tier2h
	tier24h
	tiers
)

// sampleEvery is the interval between two samples of a sandbox.
const sampleEvery = 500 * time.Millisecond

var ranges = map[string]int{"10m": tier10m, "2h": tier2h, "24h": tier24h}

// metrics is the recent resource usage of a sandbox.
type metrics struct {
	saving sync.Mutex // locked while the file is written, so that an older state never replaces a newer one
	mu     sync.Mutex
	tier   [tiers]tier
}

func (m *metrics) init() {
	if m.tier[0].capacity != 0 {
		return
	}
	m.tier[tier10m] = tier{every: sampleEvery, capacity: 1200}
	m.tier[tier2h] = tier{every: 30 * time.Second, capacity: 240}
	m.tier[tier24h] = tier{every: 5 * time.Minute, capacity: 288}
}

// add adds a sample. It reports whether a tier of means got a new point.
func (m *metrics) add(at time.Time, p point) (mean bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.init()
	p.Unix = at.Unix()
	m.tier[tier10m].put(p)
	for i := tier2h; i < tiers; i++ {
		done, ok := m.tier[i].mean(at, p)
		if !ok {
			break
		}
		m.tier[i].put(done)
		p, mean = done, true
	}
	return mean
}

func (t *tier) put(p point) {
	if len(t.points) == t.capacity {
		t.points = t.points[1:]
	}
	t.points = append(t.points, p)
}

// mean adds a point to the current interval. If the point begins a new interval, mean returns the
// mean of the previous interval.
func (t *tier) mean(at time.Time, p point) (done point, ok bool) {
	slot := at.UnixNano() / int64(t.every)
	if ok = t.count > 0 && slot != t.slot; ok {
		n := t.count
		done = point{(t.slot + 1) * int64(t.every) / 1e9, t.sum.CPU / float64(n), t.sum.MemBytes / n, t.sum.DiskBytes / n}
		t.sum, t.count = point{}, 0
	}
	t.slot = slot
	t.sum.CPU += p.CPU
	t.sum.MemBytes += p.MemBytes
	t.sum.DiskBytes += p.DiskBytes
	t.count++
	return done, ok
}

// get returns the points of a tier.
func (m *metrics) get(i int) []point {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]point(nil), m.tier[i].points...)
}

// flush removes all points from all tiers and returns them.
func (m *metrics) flush() (all [tiers][]point) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.tier {
		all[i] = m.tier[i].points
	}
	m.tier = [tiers]tier{}
	return all
}

// metricsVersion is the version of the metrics file. The file contains this version. Then for each
// tier it contains: sum, count, slot, the number of points, and the points.
const metricsVersion = 2

// save writes the metrics file without flushing it to disk. After a power failure the file may be
// old or missing.
func (m *metrics) save(path string) error {
	var b bytes.Buffer
	put := func(v any) { binary.Write(&b, binary.LittleEndian, v) } // writing to a bytes.Buffer never fails
	m.saving.Lock()
	defer m.saving.Unlock()
	m.mu.Lock()
	put(int64(metricsVersion))
	for i := range m.tier {
		put(m.tier[i].sum)
		put([]int64{m.tier[i].count, m.tier[i].slot, int64(len(m.tier[i].points))})
		put(m.tier[i].points)
	}
	m.mu.Unlock()
	err := durable.Replacement{Unflushed: true}.Write(path, b.Bytes())
	return fault.Wrap(err, "save metrics", filepath.Base(filepath.Dir(path)))
}

var errMetrics = errors.New("the metrics file is damaged")

// load reads the metrics file. If the file does not exist, load succeeds. If load fails, the
// metrics are empty.
func (m *metrics) load(path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tier = [tiers]tier{}
	m.init()
	var read [tiers]tier
	from := bytes.NewReader(text)
	var version int64
	if binary.Read(from, binary.LittleEndian, &version) != nil || version != metricsVersion {
		return errMetrics
	}
	for i := range read {
		var counted [3]int64 // count, slot, number of points
		read[i] = m.tier[i]
		if binary.Read(from, binary.LittleEndian, &read[i].sum) != nil || binary.Read(from, binary.LittleEndian, &counted) != nil {
			return errMetrics
		}
		n := counted[2]
		if counted[0] < 0 || n < 0 || n > int64(read[i].capacity) {
			return errMetrics
		}
		read[i].count, read[i].slot, read[i].points = counted[0], counted[1], make([]point, n)
		if binary.Read(from, binary.LittleEndian, read[i].points) != nil {
			return errMetrics
		}
	}
	m.tier = read
	return nil
}
