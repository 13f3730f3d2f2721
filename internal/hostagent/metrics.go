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

	"github.com/pyro-mcp/pyro/internal/fault"
)

// point is what a sandbox took at a time, or on the mean of a time that ended then.
type point struct {
	Unix      int64
	CPU       float64 // per cent of all its processors
	MemBytes  int64
	DiskBytes int64
}

// tier is a ring of points.
type tier struct {
	every  time.Duration
	most   int
	points []point // the oldest first
	sum    point   // of what makes up the next point
	count  int64
	slot   int64 // the time that this is of, in units of every
}

// The tiers: each is made of the means of the one before.
const (
	tier10m = iota
	tier2h
	tier24h
	tiers
)

// sampleEvery is how often a sandbox is looked at.
const sampleEvery = 500 * time.Millisecond

var ranges = map[string]int{"10m": tier10m, "2h": tier2h, "24h": tier24h}

// metrics are what a sandbox took lately.
type metrics struct {
	saving sync.Mutex // held while the file is written: the last one to be there is the last one that was taken
	mu     sync.Mutex
	tier   [tiers]tier
}

func (m *metrics) init() {
	if m.tier[0].most != 0 {
		return
	}
	m.tier[tier10m] = tier{every: sampleEvery, most: 1200}
	m.tier[tier2h] = tier{every: 30 * time.Second, most: 240}
	m.tier[tier24h] = tier{every: 5 * time.Minute, most: 288}
}

// add takes a sample.
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
	if len(t.points) == t.most {
		t.points = t.points[1:]
	}
	t.points = append(t.points, p)
}

// mean takes a point into the next one of the tier, and gives the one before where its time is over.
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

// get gives the points of a tier.
func (m *metrics) get(i int) []point {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]point(nil), m.tier[i].points...)
}

// flush gives the points of all tiers, and forgets them.
func (m *metrics) flush() (all [tiers][]point) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.tier {
		all[i] = m.tier[i].points
	}
	m.tier = [tiers]tier{}
	return all
}

// The file in which they outlive the host agent: the form's number, and of each tier what makes up its next point, the count of its points and the points.
const metricsForm = 2

// save writes the file. It is not flushed: after a loss of power it may be an older one, or none.
func (m *metrics) save(path string) error {
	var b bytes.Buffer
	put := func(v any) { binary.Write(&b, binary.LittleEndian, v) } // into memory
	m.saving.Lock()
	defer m.saving.Unlock()
	m.mu.Lock()
	put(int64(metricsForm))
	for i := range m.tier {
		put(m.tier[i].sum)
		put([]int64{m.tier[i].count, m.tier[i].slot, int64(len(m.tier[i].points))})
		put(m.tier[i].points)
	}
	m.mu.Unlock()
	temporary := path + ".new"
	err := os.WriteFile(temporary, b.Bytes(), 0o600)
	if err == nil {
		err = os.Rename(temporary, path)
	}
	return fault.Wrap(err, "keep metrics", filepath.Base(filepath.Dir(path)))
}

var errMetrics = errors.New("the file of metrics is damaged")

// load reads the file. That there is none is no error; with any other error there are no points.
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
	var form int64
	if binary.Read(from, binary.LittleEndian, &form) != nil || form != metricsForm {
		return errMetrics
	}
	for i := range read {
		var counted [3]int64 // count, slot, points
		read[i] = m.tier[i]
		if binary.Read(from, binary.LittleEndian, &read[i].sum) != nil || binary.Read(from, binary.LittleEndian, &counted) != nil {
			return errMetrics
		}
		n := counted[2]
		if counted[0] < 0 || n < 0 || n > int64(read[i].most) {
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
