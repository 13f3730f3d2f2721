package machinetest

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
)

// asleep checks that only the agent runs in a resumed machine before Thaw, even if the machine is
// renewed and saved again before Thaw.
func (s suite) asleep(t *testing.T) {
	s.savable(t)
	g := s.renewed(t, other)
	g.shell(t, counting)
	g.until(t, func() bool { return g.number(t, "/run/count") > 2 })
	dir, stood := g.saveAsleep(t), ""
	for round := range 3 { // rounds 0 and 1 resume from the first save, round 2 from the second
		if round == 2 {
			dir = g.saveAsleep(t)
		}
		g = s.follow(t, g, dir)
		if stood == "" {
			stood = g.read(t, "/run/count")
		}
		g.pass(t, 500*time.Millisecond)
		if now := g.read(t, "/run/count"); now != stood {
			t.Fatalf("round %d: the counter went from %s to %s before Thaw", round, stood, now)
		}
	}
	for range 2 { // thaw, save immediately, resume
		g.wake(t)
		g.wake(t)
		g = s.follow(t, g, g.saveAsleep(t))
	}
	g.wake(t)
	g.until(t, func() bool { now := g.number(t, "/run/count"); return strconv.Itoa(now) != stood })
	g.answers(t)
}

// follow resumes a saved machine as a new machine, closes the saved machine, and renews the new
// one.
func (s suite) follow(t *testing.T, last *guest, dir string) *guest {
	t.Helper()
	g := s.startAs(t, s.again(t, last, dir))
	last.agent.Close()
	if err := last.Close(); err != nil {
		t.Fatal(err)
	}
	g.renewAsleep(t)
	return g
}

// read returns the content of a small file. The agent reads the file.
func (g *guest) read(t *testing.T, path string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var b bytes.Buffer
	if _, err := g.agent.ReadFile(ctx, path, 0, 0, &b); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}

// pass waits until the agent's own clock has advanced by d.
func (g *guest) pass(t *testing.T, d time.Duration) {
	t.Helper()
	uptime := func() time.Duration {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		s, err := g.agent.Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return s.Uptime
	}
	began := uptime()
	g.until(t, func() bool { return uptime()-began >= d })
}

// saveAsleep freezes the processes of a machine, then saves the machine. The machine is paused
// afterwards.
func (g *guest) saveAsleep(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := g.agent.Hold(ctx, client.Mounts{}, time.Minute); err != nil {
		t.Fatal(err)
	}
	return g.save(t)
}
