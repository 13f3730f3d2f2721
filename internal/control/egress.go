package control

import (
	"context"
	"time"

	"github.com/pyro-mcp/pyro/internal/control/store"
	hostv1 "github.com/pyro-mcp/pyro/internal/gen/host/v1"
)

// countSent adds the bytes that the machine of a sandbox has sent to other computers to the use of
// its team. If the team has then spent its quota, the followers of the hosts pause its running
// sandboxes.
func (c *Control) countSent(ctx context.Context, b store.Sandbox, there *hostv1.WatchResponse) error {
	if there.GetSentSinceUnixNano() == 0 { // unknown
		return nil
	}
	spent, err := c.store.CountSent(ctx, b.ID, there.SentSinceUnixNano, there.SentBytes, c.clock())
	if err != nil || !spent {
		return err
	}
	all, err := c.store.Sandboxes(ctx, b.TeamID)
	for _, b := range all {
		if b.Wanted == store.WantRunning {
			c.look(b.HostID, b.ID)
		}
	}
	return err
}

// lastCountTimeout is the maximum duration of countSentBefore. It is longer than the time that a
// host waits for a machine.
const lastCountTimeout = 15 * time.Second

// countSentBefore asks the host for the bytes that a sandbox has sent and records them. Call it
// before the sandbox is removed from its host. If the host does not answer, the bytes since the
// last report are not counted.
func (c *Control) countSentBefore(ctx context.Context, h Host, b store.Sandbox) {
	ctx, cancel := context.WithTimeout(ctx, lastCountTimeout)
	defer cancel()
	there, err := hostStates(ctx, h, b.ID)
	if err == nil {
		err = c.countSent(ctx, b, there[b.ID])
	}
	if err != nil {
		c.log.Warn("count the last bytes that a deleted sandbox sent", "sandbox", b.ID, "error", err)
	}
}

// pauseSpender pauses a running sandbox if its team has spent its quota of egress. The caller holds
// the sandbox's lock.
func (c *Control) pauseSpender(ctx context.Context, b store.Sandbox, status string) error {
	if b.Wanted != store.WantRunning || status != statusRunning {
		return nil
	}
	spent, err := c.store.EgressSpent(ctx, b.TeamID, c.clock())
	if err != nil || !spent {
		return err
	}
	by := Actor{Type: store.ActorSystem, ID: "egress_quota", Name: "Quota of egress", TeamID: b.TeamID}
	if _, err := c.changeLocked(ctx, by, b.ID, actPause, store.WantPaused, pause); err != nil {
		return err // the follower tries again, so the audit log has no entry for each attempt
	}
	c.audit(ctx, by, actPause, onSandbox, b.ID, nil)
	c.log.Info("sandbox paused, because its team has spent its quota of egress", "sandbox", b.ID, "team", b.TeamID)
	return nil
}
