package ext4

import (
	"slices"
	"sync"
)

// The shelf holds the largest directory and those above it.
const (
	shelfSize  = maxDirectory + 16<<20 // bytes of the directories in the image
	shelfCount = 64
)

// shelf keeps the directories that were used last: a walk opens one file after the other of the same directory, each by its whole path.
type shelf struct {
	mu     sync.Mutex
	recent []*directory // the latest first
	size   int64        // of all
}

func (s *shelf) take(number uint32) *directory {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.recent, func(d *directory) bool { return d.number == number })
	if i < 0 {
		return nil
	}
	d := s.recent[i]
	copy(s.recent[1:], s.recent[:i])
	s.recent[0] = d
	return d
}

func (s *shelf) put(d *directory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent = slices.Insert(s.recent, 0, d)
	s.size += d.size
	for last := len(s.recent) - 1; last > 0 && (s.size > shelfSize || last >= shelfCount); last-- {
		s.size -= s.recent[last].size
		s.recent = slices.Delete(s.recent, last, last+1)
	}
}
