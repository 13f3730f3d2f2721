package operations

import (
	"runtime"
	"testing"
)

type noSandboxes struct{ Sandboxes }

// TestSandboxServersAreSmall checks that a server for another team needs little memory.
func TestSandboxServersAreSmall(t *testing.T) {
	const servers, limit = 32, 200 << 10
	tools := NewSandboxTools(noSandboxes{})
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	for range servers {
		s := tools.NewServer()
		defer s.Close()
	}
	if each := (heap() - before) / servers; each > limit {
		t.Errorf("each server needs %d KiB", each>>10)
	}
}
