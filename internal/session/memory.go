package session

import (
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/disk"
)

// memory is what a manager has read of sessions: to read it again takes longer than most of what is asked of them.
type memory struct {
	mu  sync.Mutex
	all map[string]remembered // by the ids of sessions
}

// remembered is what was asked for, which does not change, and what became of it, as long as the file is the one that was read.
type remembered struct {
	spec  Spec
	state State
	stamp disk.Stamp // of the file of the state
}

// recall gives what was read before, if that is as it was.
func (m *memory) recall(f Folder) (Spec, State, bool) {
	m.mu.Lock()
	r, known := m.all[f.id()]
	m.mu.Unlock()
	if !known {
		return Spec{}, State{}, false
	}
	if now, err := disk.StampOf(f.path(stateName)); err != nil || now != r.stamp {
		return Spec{}, State{}, false
	}
	if r.spec.LogFolder != "" {
		r.state.LogError = f.logError()
	}
	return r.spec, r.state, true
}

// read gives what was asked for, and what became of it, as far as the keeper said. began is false where that has said nothing yet. NotFound where there is no session.
func (m *memory) read(f Folder) (spec Spec, state State, began bool, err error) {
	if spec, state, ok := m.recall(f); ok {
		return spec, state, true, nil
	}
	before, _ := disk.StampOf(f.path(stateName)) // the zero one where there is none yet
	if spec, err = f.Spec(); err == nil {
		state, began, err = f.State()
	}
	if err != nil || !began {
		m.forget(f.id())
		return spec, state, began, err
	}
	// What is replaced while it is read has another stamp by now. A stamp is only as fine as the clock of the file system: what has just been written may be written
	// again within its tick.
	if after, err := disk.StampOf(f.path(stateName)); err == nil && after == before && time.Since(time.Unix(0, after.CTime)) > stampTick {
		m.keep(f.id(), remembered{spec, state, after})
	}
	return spec, state, began, nil
}

// stampTick is longer than the tick of any clock that files are stamped by.
const stampTick = 50 * time.Millisecond

func (m *memory) keep(id string, r remembered) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[string]remembered{}
	}
	m.all[id] = r
}

func (m *memory) forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, id)
}

// only forgets other sessions than these.
func (m *memory) only(these map[string]int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.all {
		if _, is := these[id]; !is {
			delete(m.all, id)
		}
	}
}
