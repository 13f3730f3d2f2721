package machinetest

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
)

// KilledWhileSaved kills machines at several moments of a save: that is told, and nothing hangs or is left. begin starts one with more than 40 MiB to save, most of which are
// written to file, and goOn has one go on from where it was saved before it was killed, which may happen: then it is killed sooner.
func KilledWhileSaved(t *testing.T, file string, begin func() machine.Machine, goOn func(dir string)) {
	for _, room := range []int64{0, 1 << 20, 40 << 20} {
		for draws := 1; !killedWhileSaved(t, file, room, begin(), goOn); draws++ {
			if room /= 2; draws == 5 {
				t.Fatal("it is always saved before it is killed")
			}
		}
	}
}

// killedWhileSaved kills a machine once so many bytes of it have been written. False: it was saved by then, which is checked to be true.
func killedWhileSaved(t *testing.T, file string, room int64, m machine.Machine, goOn func(dir string)) bool {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var killing sync.WaitGroup
	saved := make(chan struct{})
	killing.Go(func() {
		for { // until so much has been written
			info, err := os.Stat(filepath.Join(dir, file))
			select {
			case <-saved:
				return
			default:
			}
			if err == nil && info.Size() >= room {
				unix.Kill(m.PID(), unix.SIGKILL)
				return
			}
		}
	})
	err := m.(machine.Saver).Save(ctx, dir)
	close(saved)
	killing.Wait()
	if err == nil {
		t.Logf("it was saved before it was killed, which was to be after %d bytes", room)
		m.Close()
		goOn(dir)
		return false
	}
	if fault.KindOf(err) == fault.Timeout {
		t.Errorf("killed after %d bytes: %v", room, err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	<-m.Done()
	return true
}
