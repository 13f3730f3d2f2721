//go:build machine

package test

import "testing"

// TestEgressRules attacks a machine's egress rules from inside the machine.
func TestEgressRules(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	b := h.startAttacker(t, []string{good + "/32", "10.20.0.0/16", "10.66.0.6/32"},
		"--egress-allow", "good.test:443", "--egress-allow", "rebinding.good.test:5432", "--egress-allow", "*.wild.test", "--egress-allow", "10.20.0.0/16:5432", "--egress-deny", "10.20.9.0/24", "--egress-deny", "8.8.4.0/24")
	const no = "not allowed by any rule"
	for _, step := range [][]attack{
		{{Name: "an address before its name is known", Do: "tcp", To: good + ":443", logged: no}},
		{
			{Name: "control: a name", Do: "name", To: "good.test:443", want: "connected"},
			{Name: "control: a private address", Do: "tcp", To: "10.20.1.2:5432", want: "connected"},
			{Name: "control: a private address by UDP", Do: "udp", To: "10.20.1.2:5432", want: "answered"},
			{Name: "control: a name that will be rebound", Do: "name", To: "rebinding.good.test:5432", want: "connected"},
			{Name: "control: a name below a domain", Do: "name", To: "rebinding.wild.test:5432", want: "connected"},
		},
		{
			{Name: "control: an address of a name", Do: "tcp", To: good + ":443", want: "connected"},
			{Name: "another port of a private address", Do: "tcp", To: "10.20.1.2:80", logged: "private"},
			{Name: "another port of a private address by UDP", Do: "udp", To: "10.20.1.2:123", logged: "private"},
			{Name: "a denied private address", Do: "tcp", To: "10.20.9.2:5432", logged: "denied by 10.20.9.0/24"},
			{Name: "another private address", Do: "tcp", To: "10.21.0.1:5432", logged: "private"},
			{Name: "a private address before the range", Do: "tcp", To: "10.19.255.255:5432", logged: "private"},
			{Name: "a private address, mapped", Do: "syn", To: "[::ffff:10.20.1.3]:5432", logged: "not an address on a network"},
			{Name: "another port of a private address by a translator", Do: "syn", To: "[64:ff9b::10.20.1.3]:80", logged: "private"},
			{Name: "a denied private address by a translator", Do: "syn", To: "[64:ff9b::10.20.9.3]:5432", logged: "denied"},
			{Name: "a ping to a private address", Do: "echo", To: "10.20.1.4:0", logged: "private", record: "icmp 10.20.1.4 0"},
			{Name: "fragments to another port", Do: "tiny fragments", To: "10.20.1.5:22", logged: "private"},
			{Name: "a public address", Do: "tcp", To: public + ":443", logged: no},
			{Name: "a public address by UDP", Do: "udp", To: public + ":443", logged: no},
			{Name: "a denied public address", Do: "tcp", To: "8.8.4.4:443", logged: "denied by 8.8.4.0/24"},
			{Name: "another name", Do: "name", To: "bad.test:443", logged: no, record: "dns bad.test"},
			{Name: "a name below", Do: "name", To: "sub.good.test:443", logged: no, record: "dns sub.good.test"},
			{Name: "a name that carries something out", Do: "query", To: "GATEWAY:53", Ask: "secret.bad.test TXT", logged: no, record: "dns secret.bad.test"},
			{Name: "a name by another resolver", Do: "query", To: "8.8.8.8:53", Ask: "bad2.test A", logged: no, record: "dns bad2.test"},
			{Name: "metadata", Do: "tcp", To: "169.254.169.254:80", logged: "metadata"},
			{Name: "the host", Do: "tcp", To: hostOwn + ":443", logged: "address of the host"},
			{Name: "the host's cable", Do: "tcp", To: hostCable + ":5432", logged: "address of the host"},
			{Name: "DNS over TLS to what is allowed", Do: "tcp", To: "10.20.1.2:853", logged: "another name server"},
			{Name: "rebind it", Do: "query", To: "GATEWAY:53", Ask: "turn.rebinding.good.test A", logged: no, record: "dns turn.rebinding.good.test"},
		},
	} {
		b.attack(step)
	}
	h.host.shell("getent ahostsv4 turn.rebinding.wild.test")
	b.attack([]attack{
		{Name: "a name below a domain rebound to a private address", Do: "name", To: "rebinding.wild.test:5432", logged: "private", record: "dns rebinding.wild.test"},
		{Name: "what it was rebound to", Do: "tcp", To: "10.66.0.6:5432", logged: "private"},
	})
	h.host.shell("getent ahostsv4 turn.rebinding.good.test")
	b.attack([]attack{
		{Name: "control: an allowed name that now has a private address", Do: "name", To: "rebinding.good.test:5432", want: "connected"},
		{Name: "another port of its address", Do: "tcp", To: "10.66.0.6:80", logged: "private"},
	})
}

// TestEgressDenied checks that, if there are only deny rules, the rest of the Internet can be
// reached.
func TestEgressDenied(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	b := h.startAttacker(t, []string{"8.8.8.0/24", public + "/32"}, "--egress-deny", "8.8.4.0/24", "--egress-deny", "bad.test", "--egress-deny", "93.184.216.34:25")
	b.attack([]attack{
		{Name: "control: what is beside", Do: "tcp", To: "8.8.8.8:443", want: "connected"}, {Name: "control: another port", Do: "tcp", To: public + ":443", want: "connected"},
		{Name: "first of a range", Do: "tcp", To: "8.8.4.0:443", logged: "denied"}, {Name: "last of a range", Do: "udp", To: "8.8.4.255:443", logged: "denied"},
		{Name: "a range by a translator", Do: "tcp", To: "[64:ff9b::8.8.4.4]:443", logged: "denied"}, {Name: "a denied port", Do: "tcp", To: public + ":25", logged: "denied"},
		{Name: "a denied port by a translator", Do: "tcp", To: "[" + publicNAT64 + "]:25", logged: "denied"}, {Name: "a denied name", Do: "name", To: "bad.test:80", logged: "denied", record: "dns bad.test"},
		{Name: "a denied name in capitals", Do: "query", To: "GATEWAY:53", Ask: "BAD.Test A", logged: "denied", record: "dns bad.test"}, {Name: "a private address", Do: "tcp", To: "10.20.1.2:5432", logged: "private"},
		{Name: "a ping into a range", Do: "echo", To: "8.8.4.8:0", logged: "denied", record: "icmp 8.8.4.8 0"},
	})
}
