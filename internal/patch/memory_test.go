package patch_test

import (
	"runtime"
	"runtime/debug"
	"time"
)

// growth tells by how many bytes the heap grows at most while f runs.
func growth(f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(20)) // little more than what is in use
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before, peak := m.HeapAlloc, m.HeapAlloc
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	for {
		select {
		case <-done:
			return peak - before
		case <-time.After(2 * time.Millisecond):
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapAlloc)
		}
	}
}
