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

// KilledWhileSaved kills machines at different moments during a save. Save must return an error,
// must not hang, and must leave no files.
//
// The function begin starts a machine that has more than 40 MiB to save. Most of the saved bytes
// must go to the file that the parameter file names. If a save ends before the kill,
// KilledWhileSaved calls resume with the folder, then tries an earlier moment.
func KilledWhileSaved(t *testing.T, file string, begin func() machine.Machine, resume func(dir string)) {
	for _, size := range []int64{0, 1 << 20, 40 << 20} {
		for draws := 1; !killedWhileSaved(t, file, size, begin(), resume); draws++ {
			if size /= 2; draws == 5 {
				t.Fatal("every save ended before the kill")
			}
		}
	}
}

// killedWhileSaved kills a machine when the file has reached the given size. If the save ended
// before the kill, it resumes from the folder and returns false.
func killedWhileSaved(t *testing.T, file string, size int64, m machine.Machine, resume func(dir string)) bool {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var killing sync.WaitGroup
	saved := make(chan struct{})
	killing.Go(func() {
		for { // wait until the file has reached the size
			info, err := os.Stat(filepath.Join(dir, file))
			select {
			case <-saved:
				return
			default:
			}
			if err == nil && info.Size() >= size {
				unix.Kill(m.PID(), unix.SIGKILL)
				return
			}
		}
	})
	err := m.(machine.Saver).Save(ctx, dir)
	close(saved)
	killing.Wait()
	if err == nil {
		t.Logf("the save ended before the kill after %d bytes", size)
		m.Close()
		resume(dir)
		return false
	}
	if fault.KindOf(err) == fault.Timeout {
		t.Errorf("killed after %d bytes: %v", size, err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("leftover: %v", left)
	}
	<-m.Done()
	return true
}
