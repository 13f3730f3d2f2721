package patch_test

import (
	"runtime"
	"runtime/debug"
	"time"
)

// growth returns the maximum growth of the heap while the function f runs, in bytes.
func growth(f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(20)) // Collect garbage often, to measure only the memory in use.
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
