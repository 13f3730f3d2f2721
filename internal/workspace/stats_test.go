package workspace

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestSamples(t *testing.T) {
	m := newManager(t)
	busy, stopped := create(t, m), create(t, m, "big", strings.Repeat("x", 1<<20))
	_, err := m.Stop(t.Context(), store.KindWorkspace, stopped.ID)
	check(t, err)
	machine, err := m.Machine(t.Context(), store.KindWorkspace, busy.ID)
	check(t, err)
	_, err = machine.Open(t.Context(), "busy", program.Command{Argv: []string{"sh", "-c", "while :; do :; done"}})
	check(t, err)
	machine.Close()

	samples := func(before []Sample, ids ...string) map[string]Sample {
		t.Helper()
		all, err := m.Samples(t.Context(), ids, before)
		check(t, err)
		by := map[string]Sample{}
		for _, s := range all {
			by[s.ID] = s
		}
		return by
	}
	first := samples(nil)
	if len(first) != 2 || first[busy.ID].Usage == nil || first[stopped.ID].Usage != nil || first[stopped.ID].DiskBytes < 1<<20 {
		t.Fatalf("%+v", first)
	}
	before := []Sample{first[busy.ID], first[stopped.ID]}
	check(t, os.WriteFile(filepath.Join(string(m.folder(stopped.ID)), "more"), bytes.Repeat([]byte("x"), 1<<20), 0o600))
	testenv.Eventually(t, "the processor time of a loop is counted", func() bool { return samples(before)[busy.ID].Load(first[busy.ID]) >= 0.05 })
	if again := samples(before)[stopped.ID].DiskBytes; again != first[stopped.ID].DiskBytes {
		t.Errorf("a stopped workspace was measured again: %d bytes", again)
	}
	if one := samples(nil, busy.ID); len(one) != 1 {
		t.Errorf("%+v", one)
	}
	if _, err := m.Samples(t.Context(), []string{"ws-0123456789ab"}, nil); fault.KindOf(err) != fault.NotFound {
		t.Errorf("an unknown workspace: %v", err)
	}
}

// TestLoad checks that the load is unknown if another machine took the place of the first one.
func TestLoad(t *testing.T) {
	at := time.Now()
	sample := func(after time.Duration, cpu time.Duration, supervisor int) Sample {
		return Sample{At: at.Add(after), Usage: &Usage{CPU: cpu, Supervisor: supervisor}}
	}
	first := sample(0, time.Second, 1)
	for name, c := range map[string]struct {
		now  Sample
		want float64
	}{
		"two processors":  {sample(time.Second, 3*time.Second, 1), 2},
		"another machine": {sample(time.Second, 3*time.Second, 2), 0},
		"no time":         {sample(0, 3*time.Second, 1), 0},
		"no answer":       {Sample{At: at.Add(time.Second)}, 0},
	} {
		if got := c.now.Load(first); got != c.want {
			t.Errorf("%s: %v, not %v", name, got, c.want)
		}
	}
	if got := first.Load(Sample{}); got != 0 {
		t.Errorf("the first sample: %v", got)
	}
}
