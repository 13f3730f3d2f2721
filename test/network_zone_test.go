//go:build machine

package test

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// Addresses that machines are allowed to reach in the tests.
const (
	public, public6         = "93.184.216.34", "2606:2800:220:1::34"
	good, other, flooded    = "93.184.216.35", "93.184.216.36", "93.184.217.1"
	publicNAT64             = "64:ff9b::5db8:d822" // a public address behind NAT64
	privateNAT64            = "64:ff9b::a42:20"
	reachable, reachableAll = "93.184.216.0/23", "2606:2800:220:1::/64"
)

// addresses maps the names of the simulated Internet to addresses.
var addresses = map[string][]string{
	"public.test": {public, public6}, "good.test": {good}, "bad.test": {other}, "sub.good.test": {other}, "both.test": {public, "10.66.0.1", public6, "fd66::1"},
	"private.test": {"10.66.0.2"}, "private172.test": {"172.20.0.2"}, "private192.test": {"192.168.66.2"}, "shared.test": {"100.64.66.2"},
	"loopback.test": {"127.0.0.1"}, "loopback6.test": {"::1"}, "loopback2.test": {"127.66.0.1"}, "zero.test": {"0.0.0.0"}, "zero6.test": {"::"},
	"metadata.test": {"169.254.169.254"}, "metadata.google.internal": {"169.254.169.254"}, "metadata6.test": {"fd00:ec2::254"}, "azure.test": {"168.63.129.16"},
	"alibaba.test": {"100.100.100.200"}, "linklocal.test": {"169.254.66.2"}, "linklocal6.test": {"fe80::66"}, "unique.test": {"fd66::2"}, "sitelocal.test": {"fec0::66"},
	"mapped.test": {"::ffff:10.66.0.3"}, "mapped-loopback.test": {"::ffff:127.0.0.1"}, "compatible.test": {"::10.66.0.4"}, "nat64.test": {privateNAT64},
	"nat64-loopback.test": {"64:ff9b::7f00:1"}, "nat64-metadata.test": {"64:ff9b::a9fe:a9fe"}, "sixtofour.test": {"2002:a42:5::1"}, "teredo.test": {"2001:0:a42:6::1"},
	"multicast.test": {"239.66.0.1"}, "multicast6.test": {"ff0e::66"}, "broadcast.test": {"255.255.255.255"}, "reserved.test": {"240.66.0.1"},
	"benchmark.test": {"198.18.66.1"}, "documentation.test": {"203.0.113.66"}, "documentation6.test": {"2001:db8::66"},
	"host.test": {hostOwn}, "host6.test": {hostOwn6}, "host-cable.test": {hostCable}, "host-public.test": {hostPublic}, "host-nat64.test": {"64:ff9b::2d2d:2d2d"},
	"target.test": {"10.66.0.7"}, "wpad.good.test": {"10.66.0.8"}, "10.0.0.1": {"10.66.0.9"},
}

// aliases maps names to the names that they are aliases of.
var aliases = map[string]string{"alias.test": "private.test", "alias-metadata.test": "metadata.test", "alias-host.test": "host.test", "alias-of-alias.test": "alias.test"}

// zone is a name server that answers queries for all names.
type zone struct {
	mu     sync.Mutex
	turned map[string]bool
}

// at returns the current addresses of a name. The address of alternating.test changes with each
// query. The address of a name such as rebinding.test is public until turn.NAME is queried.
func (z *zone) at(name string) []string {
	z.mu.Lock()
	defer z.mu.Unlock()
	if rest, ok := strings.CutPrefix(name, "turn."); ok {
		z.turned[rest] = true
		return []string{public}
	}
	turned := z.turned[name]
	switch name {
	case "alternating.test":
		z.turned[name] = !turned
	case "rebinding.test", "rebinding.good.test", "rebinding.wild.test", "rebinding-host.test":
	default:
		if strings.HasSuffix(name, ".flood.test") {
			return []string{public}
		}
		return addresses[name]
	}
	switch {
	case !turned:
		return []string{good}
	case name == "rebinding-host.test":
		return []string{hostOwn}
	}
	return []string{"10.66.0.6"}
}

func (z *zone) answer(query []byte) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: h.ID, Response: true, RecursionAvailable: true}, Questions: []dnsmessage.Question{q}}
	name := q.Name
	add := func(b dnsmessage.ResourceBody) {
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: 1}, Body: b})
	}
	text := func() string { return strings.ToLower(strings.TrimSuffix(name.String(), ".")) }
	for aliases[text()] != "" {
		target := dnsmessage.MustNewName(aliases[text()] + ".")
		add(&dnsmessage.CNAMEResource{CNAME: target})
		name = target
	}
	all := z.at(text())
	for _, t := range all {
		switch a := netip.MustParseAddr(t); {
		case a.Is4() && q.Type == dnsmessage.TypeA:
			add(&dnsmessage.AResource{A: a.As4()})
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			add(&dnsmessage.AAAAResource{AAAA: a.As16()})
		}
	}
	if len(all) == 0 {
		m.RCode = dnsmessage.RCodeNameError
	}
	b, _ := m.Pack()
	return b
}

func (z *zone) serveTCP() error {
	l, err := net.Listen("tcp", ":53")
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				length := make([]byte, 2)
				for {
					if _, err := io.ReadFull(c, length); err != nil {
						return
					}
					query := make([]byte, binary.BigEndian.Uint16(length))
					if _, err := io.ReadFull(c, query); err != nil {
						return
					}
					answer := z.answer(query)
					c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
				}
			}()
		}
	}()
	return nil
}
