package pyro

import (
	"encoding/json"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/network"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

func TestWorkspaceNetwork(t *testing.T) {
	w := workspace.Workspace{Workspace: store.Workspace{ID: "ws-b1b14fe17d00", Spec: store.Spec{Network: store.NetworkOff}}}
	if n := networkOf(w); n != nil {
		t.Errorf("off: %+v", n)
	}
	w.Spec.Network = store.NetworkPublished
	n := networkOf(w)
	if n.Address != "10.188.112.2/24" || n.Gateway != "10.188.112.1" || n.MAC != "62:7f:20:72:b0:fc" || n.MTU != network.MTU {
		t.Errorf("%+v", n) // the addresses must stay the same for an id, because existing machines use them
	}
	if b, err := json.Marshal([]any{n.EgressAllow, n.EgressDeny, n.PublishedPorts}); err != nil || string(b) != "[[],[],[]]" {
		t.Errorf("%s, %v", b, err)
	}
	w.Ports, w.Spec.Egress.Allow = []store.Port{{Guest: 80, Host: 8080}}, []string{"x.test"}
	if n = networkOf(w); !slices.Equal(n.PublishedPorts, []PublishedPort{{GuestPort: 80, HostPort: 8080}}) || !slices.Equal(n.EgressAllow, []string{"x.test"}) {
		t.Errorf("%+v", n)
	}
}

func TestPublishedPortsOfRunningServices(t *testing.T) {
	s := workspace.Service{State: workspace.ServiceRunning, Service: store.Service{Spec: store.ServiceSpec{Ports: []store.Port{{Guest: 80, Host: 8080}}}}}
	if got := newService("ws-0", store.Spec{}, s).PublishedPorts; len(got) != 1 {
		t.Errorf("running: %v", got)
	}
	s.State = workspace.ServiceStopped // it ended with its machine, and its end was not observed
	if got := newService("ws-0", store.Spec{}, s).PublishedPorts; got == nil || len(got) > 0 {
		t.Errorf("its machine ended: %#v", got)
	}
	s.State = workspace.ServicePaused
	if got := newService("ws-0", store.Spec{}, s).PublishedPorts; got == nil || len(got) > 0 {
		t.Errorf("its workspace is paused: %#v", got)
	}
	s.State, s.EndedAt = workspace.ServiceExited, time.Now()
	if got := newService("ws-0", store.Spec{}, s).PublishedPorts; got == nil || len(got) > 0 {
		t.Errorf("ended: %#v", got)
	}
}

func TestNetworkRecords(t *testing.T) {
	at := time.Date(2026, 11, 22, 1, 2, 3, 4, time.UTC)
	for _, c := range []struct {
		record network.Record
		open   bool
		want   NetworkRecord
	}{
		{network.Record{Time: at.In(time.FixedZone("east", 3600)), Took: 1500 * time.Microsecond, Protocol: "tcp", Name: "x.test", Address: netip.MustParseAddr("1.2.3.4"), Port: 443, Sent: 1, Received: 2, Times: 1}, false,
			NetworkRecord{Time: at, Protocol: "tcp", Name: "x.test", Address: "1.2.3.4", Port: 443, Verdict: VerdictAllowed, DurationMS: 1.5, Sent: 1, Received: 2, Times: 1}},
		{network.Record{Time: at, Protocol: "tcp", Address: netip.MustParseAddr("::1"), Port: 1, Times: 1}, true,
			NetworkRecord{Time: at, Protocol: "tcp", Address: "::1", Port: 1, Verdict: VerdictAllowed, Open: true, Times: 1}},
		{network.Record{Time: at, Protocol: "dns", Name: "x.test", Refused: "why", Times: 3}, false,
			NetworkRecord{Time: at, Protocol: "dns", Name: "x.test", Verdict: VerdictRefused, Reason: "why", Times: 3}},
		{network.Record{Time: at, Protocol: "tcp", Address: netip.MustParseAddr("1.2.3.4"), Error: "timed out", Times: 1}, false,
			NetworkRecord{Time: at, Protocol: "tcp", Address: "1.2.3.4", Verdict: VerdictAllowed, Error: "timed out", Times: 1}},
	} {
		if got := newNetworkRecord(c.record, c.open); got != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}
