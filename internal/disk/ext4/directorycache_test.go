package ext4

import (
	"sync"
	"testing"
)

func TestDirectoryCacheIsBounded(t *testing.T) {
	var s directoryCache
	for i := range uint32(200) {
		s.put(&directory{number: i, size: 1 << 20})
		s.get(0)
	}
	if len(s.recent) != directoryCacheCount || s.size != directoryCacheCount<<20 || s.get(0) == nil || s.get(1) != nil || s.get(199) == nil {
		t.Errorf("%d directories of %d MiB", len(s.recent), s.size>>20)
	}
	s.put(&directory{number: 1000, size: directoryCacheSize})
	if len(s.recent) != 1 || s.size != directoryCacheSize || s.get(1000) == nil {
		t.Errorf("%d directories of %d MiB", len(s.recent), s.size>>20)
	}
}

func TestConcurrentReads(t *testing.T) {
	fsys := openImage(t, smallImage(t))
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() { explore(t, fsys) })
	}
	readers.Wait()
}
