package machinetest

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/machine"
)

// asleep checks that nothing but the agent runs in a machine that goes on before it is woken, be it renewed or not, and saved once more or not.
func (s suite) asleep(t *testing.T) {
	s.savable(t)
	g := s.renewed(t, other)
	own := s.driver.Features().OwnKernel
	if _, ok := g.Machine.(machine.Waker); ok == own {
		t.Errorf("OwnKernel is %t, and that its machines are Wakers %t", own, ok)
	}
	g.shell(t, counting)
	g.until(t, func() bool { return g.number(t, "/run/count") > 2 })
	dir, stood := g.saveAsleep(t), ""
	for round := range 3 { // the first two stand where the one does that was saved, the third where the second does
		if round == 2 {
			dir = g.saveAsleep(t)
		}
		g = s.follow(t, g, dir)
		if stood == "" {
			stood = g.read(t, "/run/count")
		}
		g.pass(t, 500*time.Millisecond)
		if now := g.read(t, "/run/count"); now != stood {
			t.Fatalf("round %d: it has counted from %s to %s before it was woken", round, stood, now)
		}
	}
	for range 2 { // it is woken, saved at once, and goes on
		g.wake(t)
		g.wake(t)
		g = s.follow(t, g, g.saveAsleep(t))
	}
	g.wake(t)
	g.until(t, func() bool { now := g.number(t, "/run/count"); return strconv.Itoa(now) != stood })
	g.answers(t)
}

// follow starts a machine that goes on from what another was saved as, renews it, and ends the other.
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

// read gives what is in a small file, as the agent reads it.
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

// pass waits until so much time has passed for the agent.
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

// saveAsleep saves a machine as one is that others are to take over. It stands still then.
func (g *guest) saveAsleep(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := g.agent.Hold(ctx, client.Mounts{}, time.Minute); err != nil {
		t.Fatal(err)
	}
	return g.save(t)
}
