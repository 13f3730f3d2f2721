package workspace

import (
	"reflect"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestUpdateOfSettings(t *testing.T) {
	m := newManager(t)
	w := create(t, m)
	update := func(u Update) Workspace {
		t.Helper()
		now, err := m.Update(t.Context(), w.ID, u)
		check(t, err)
		return now
	}
	waits := func(when string, w Workspace, fields ...string) {
		t.Helper()
		if got := w.Waiting(); !reflect.DeepEqual(got, fields) {
			t.Errorf("%s: %v wait for the next start, not %v", when, got, fields)
		}
	}
	now := update(Update{MemMiB: 256, TTLSeconds: 3600, Name: new("bigger")})
	waits("after an update", now, "mem_mib")
	if now.State != Started || now.Spec.MemMiB != 256 || now.Spec.CurrentShape().MemMiB != 128 || now.Name != "bigger" {
		t.Errorf("%+v", now)
	}
	if left := time.Until(now.ExpiresAt); left > time.Hour || left < 50*time.Minute {
		for began := time.Now(); left < 50*time.Minute; left = time.Until(now.ExpiresAt) { // the supervisor records it soon
			if time.Since(began) > testenv.Patience {
				t.Fatalf("it expires in %v", left)
			}
			time.Sleep(20 * time.Millisecond)
			var err error
			now, err = m.Get(t.Context(), store.KindWorkspace, w.ID)
			check(t, err)
		}
	}
	waits("after the value of before", update(Update{MemMiB: 128}))
	waits("after two more", update(Update{VCPUCount: 2, MemMiB: 512}), "vcpu_count", "mem_mib")

	_, err := m.Stop(t.Context(), store.KindWorkspace, w.ID)
	check(t, err)
	now, err = m.Start(t.Context(), store.KindWorkspace, w.ID, nil)
	check(t, err)
	waits("after a start", now)
	if now.Spec.VCPUCount != 2 || now.Spec.MemMiB != 512 || now.Spec.Machine != nil {
		t.Errorf("%+v", now.Spec)
	}
	update(Update{MemMiB: 1024})
	forks, err := m.Fork(t.Context(), w.ID, "", false, 1, Spec{})
	check(t, err)
	waits("a fork", forks[0])
	if forks[0].Spec.MemMiB != 1024 || forks[0].Spec.Machine != nil {
		t.Errorf("fork: %+v", forks[0].Spec)
	}
	_, err = m.Stop(t.Context(), store.KindWorkspace, w.ID)
	check(t, err)
	waits("a stopped workspace", update(Update{MemMiB: 2048}))

	if _, err := m.Update(t.Context(), w.ID, Update{Network: store.NetworkEgress}); fault.KindOf(err) != fault.Unsupported {
		t.Errorf("a network without isolation: %v", err)
	}
	if _, err := m.Update(t.Context(), "ws-0123456789ab", Update{MemMiB: 512}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("an unknown workspace: %v", err)
	}
}

func TestUpdateSetsSpec(t *testing.T) {
	host := &store.HostNetwork{Rules: []string{"proxy.test:3128"}}
	networked := store.Spec{VCPUCount: 1, MemMiB: 512, Network: store.NetworkEgress, Egress: store.Egress{Allow: []string{"a.test"}, Deny: []string{"b.test"}}}
	off := store.Spec{VCPUCount: 1, MemMiB: 512, Network: store.NetworkOff}
	with := func(s store.Spec, change func(*store.Spec)) store.Spec {
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		before  store.Spec
		update  Update
		machine bool
		want    store.Spec
	}{
		"stopped": {off, Update{MemMiB: 1024}, false, with(off, func(s *store.Spec) { s.MemMiB = 1024 })},
		"running": {off, Update{MemMiB: 1024}, true, with(off, func(s *store.Spec) {
			s.MemMiB, s.Machine = 1024, &store.Shape{VCPUCount: 1, MemMiB: 512}
		})},
		"network on": {off, Update{Network: store.NetworkEgress, Allow: []string{"c.test"}}, true, with(off, func(s *store.Spec) {
			s.Network, s.Egress.Allow, s.Machine = store.NetworkEgress, []string{"c.test"}, &store.Shape{VCPUCount: 1, MemMiB: 512}
		})},
		"network off": {networked, Update{Network: store.NetworkOff}, true, with(networked, func(s *store.Spec) {
			s.Network, s.Machine = store.NetworkOff, &store.Shape{VCPUCount: 1, MemMiB: 512, Networked: true}
		})},
		"rules of one kind": {networked, Update{Deny: []string{"c.test"}}, true, with(networked, func(s *store.Spec) { s.Egress.Deny = []string{"c.test"} })},
		"all rules":         {networked, Update{ClearEgress: true}, true, with(networked, func(s *store.Spec) { s.Egress = store.Egress{} })},
		"all rules but one": {networked, Update{ClearEgress: true, Allow: []string{"c.test"}}, true, with(networked, func(s *store.Spec) {
			s.Egress = store.Egress{Allow: []string{"c.test"}}
		})},
		"rules beside the host's settings": {
			with(networked, func(s *store.Spec) { s.HostNetwork, s.Egress = host, store.Egress{Allow: host.Rules} }),
			Update{Allow: []string{"c.test"}}, true,
			with(networked, func(s *store.Spec) {
				s.HostNetwork, s.Egress = host, store.Egress{Allow: []string{"c.test"}, Open: host.Rules}
			}),
		},
	} {
		got := c.before
		if err := c.update.set(&got, c.machine); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v, not %+v", name, got, err, c.want)
		}
	}
	if err := (Update{Deny: []string{"c.test"}}).set(&off, true); fault.KindOf(err) != fault.Invalid {
		t.Errorf("rules without a network: %v", err)
	}
}
