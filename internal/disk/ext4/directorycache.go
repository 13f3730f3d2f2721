package ext4

import (
	"slices"
	"sync"
)

// With these limits the cache can contain the largest directory together with its parents.
const (
	directoryCacheSize  = maxDirectory + 16<<20 // total size of the directories in the image, in bytes
	directoryCacheCount = 64
)

// directoryCache caches the most recently used directories. A walk opens many files of one
// directory, each by its full path.
type directoryCache struct {
	mu     sync.Mutex
	recent []*directory // most recently used first
	size   int64        // total size of the cached directories in the image, in bytes
}

func (s *directoryCache) get(number uint32) *directory {
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

func (s *directoryCache) put(d *directory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent = slices.Insert(s.recent, 0, d)
	s.size += d.size
	for last := len(s.recent) - 1; last > 0 && (s.size > directoryCacheSize || last >= directoryCacheCount); last-- {
		s.size -= s.recent[last].size
		s.recent = slices.Delete(s.recent, last, last+1)
	}
}
