package machinetest

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
)

// rounds saves and resumes a machine many times. The machine must not lose anything, and the saved
// files must not grow.
func (s suite) rounds(t *testing.T) {
	s.savable(t)
	g := s.renewed(t, other)
	g.shell(t, counting)
	var first int64
	for round := range 10 {
		before := g.number(t, "/run/count")
		dir := g.save(t)
		size := sizeOf(t, dir)
		if round == 1 { // the test compares with the second save, because only the first machine booted
			first = size
		}
		if round > 1 && size > first+first/4+16<<20 {
			t.Errorf("round %d: %d bytes, after %d", round, size, first)
		}
		g.agent.Close()
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		g = s.startAs(t, s.again(t, g, dir))
		g.renew(t)
		if err := os.RemoveAll(dir); err != nil { // a running machine does not need the folder any more
			t.Fatal(err)
		}
		g.until(t, func() bool { return g.number(t, "/run/count") > before })
	}
	g.answers(t)
}

// sizeOf returns the disk space that the files of a folder use, in bytes.
func sizeOf(t *testing.T, dir string) (total int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		total += info.Sys().(*syscall.Stat_t).Blocks * 512
	}
	return total
}

// saveGivenUp checks that a machine survives a cancelled save, even while a process writes to
// memory as fast as it can.
func (s suite) saveGivenUp(t *testing.T) {
	s.savable(t)
	g := s.renewed(t, other)
	g.shell(t, counting)
	g.shell(t, `(while :; do head -c 60000000 /dev/zero | tr '\0' x >/run/fast; done) >/dev/null 2>&1 &`)
	for i := range 6 {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(context.Background())
		if i == 0 {
			cancel()
		}
		timer := time.AfterFunc(time.Duration(i)*60*time.Millisecond, cancel)
		err := g.Machine.(machine.Saver).Save(ctx, dir)
		timer.Stop()
		cancel()
		if err == nil {
			if i == 0 {
				t.Error("saved after its context was cancelled")
			}
			if err := g.Machine.(machine.Pauser).Resume(context.Background()); err != nil {
				t.Fatal(err)
			}
		} else if left, _ := os.ReadDir(dir); fault.KindOf(err) != fault.Canceled || len(left) > 0 {
			t.Errorf("got error %v, leftovers: %v", err, left)
		}
		before := g.number(t, "/run/count")
		g.until(t, func() bool { return g.number(t, "/run/count") > before })
	}
	dir := g.save(t)
	before := g.identity.MachineID
	fork := s.startAs(t, s.again(t, g, dir))
	fork.renew(t)
	if fork.identity.MachineID == before {
		t.Error("it is the same")
	}
	fork.answers(t)
}
