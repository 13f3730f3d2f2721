package cli

import (
	"slices"
	"testing"

	"github.com/pyro-mcp/pyro"
)

func TestNetworkLogText(t *testing.T) {
	for _, c := range []struct {
		record   pyro.NetworkRecord
		to, says string
	}{
		{pyro.NetworkRecord{Name: "x.test", Address: "192.0.2.1", Port: 443, Verdict: "allowed", Times: 1}, "x.test (192.0.2.1:443)", "allowed"},
		{pyro.NetworkRecord{Address: "2001:db8::1", Port: 443, Verdict: "allowed", Open: true, Times: 1}, "[2001:db8::1]:443", "allowed, open"},
		{pyro.NetworkRecord{Address: "192.0.2.1", Verdict: "allowed", Error: "connection\x1b[2J refused", Times: 1}, "192.0.2.1", "allowed: connection[2J refused"},
		{pyro.NetworkRecord{Address: "10.0.0.1", Port: 80, Verdict: "refused", Reason: "private address", Times: 3}, "10.0.0.1:80", "refused: private address (3 times)"},
		{pyro.NetworkRecord{Name: "x.test", Verdict: "refused", Reason: "denied by x.test", Times: 1}, "x.test", "refused: denied by x.test"},
		{pyro.NetworkRecord{Verdict: "refused", Reason: "more kinds of packets than are recorded", Times: 2}, "", "refused: more kinds of packets than are recorded (2 times)"},
	} {
		if to, says := destination(c.record), verdict(c.record); to != c.to || says != c.says {
			t.Errorf("%+v: %q, %q", c.record, to, says)
		}
	}
}

func TestWorkspaceNetworkText(t *testing.T) {
	w := pyro.Workspace{NetworkPolicy: pyro.NetworkOff}
	if got := networkText(&w); got != "off" {
		t.Error(got)
	}
	w = pyro.Workspace{NetworkPolicy: pyro.NetworkPublished, Network: &pyro.NetworkInfo{
		Address: "10.195.127.2/24", EgressAllow: []string{"*.x.test", "x.test:443"}, EgressDeny: []string{"y.x.test"},
		PublishedPorts: []pyro.PublishedPort{{GuestPort: 80, HostPort: 8080}, {GuestPort: 81, HostPort: 40123}},
	}}
	const want = "egress+published-ports, address 10.195.127.2/24; allowed only *.x.test x.test:443; denied y.x.test; " +
		"published 127.0.0.1:8080 -> 80, 127.0.0.1:40123 -> 81"
	if got := networkText(&w); got != want {
		t.Error(got)
	}
}

func TestPortsToPublish(t *testing.T) {
	got, err := parsePorts([]string{"80", "8080:81", "0:65535"})
	if want := []pyro.PublishedPort{{GuestPort: 80}, {GuestPort: 81, HostPort: 8080}, {GuestPort: 65535}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}
