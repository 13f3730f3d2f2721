package egress

import (
	"net/netip"
	"strings"
	"testing"
)

func nobody(netip.Addr) bool { return false }

func connect(t *testing.T, p *Policy, to string, names ...string) string {
	t.Helper()
	if r := p.Connect(netip.MustParseAddrPort(to), names, nobody); r != nil {
		return r.Reason
	}
	return ""
}

func policy(t *testing.T, allow, deny []string) *Policy {
	t.Helper()
	p, err := New(allow, deny)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestDefaults checks the first and the last address of each refused range, and the allowed
// addresses next to it.
func TestDefaults(t *testing.T) {
	p := policy(t, nil, nil)
	for _, row := range []struct{ reason, addresses string }{
		{"", "1.0.0.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 " +
			"192.0.1.0 192.0.3.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 198.51.99.255 198.51.101.0 203.0.112.255 203.0.114.0 223.255.255.255"},
		{"unspecified address", "0.0.0.0 0.255.255.255 [::] [::ffff:0.0.0.0] [64:ff9b::]"},
		{"loopback address", "127.0.0.1 127.255.255.255 [::1] [::ffff:127.0.0.1] [64:ff9b::7f00:1] [::ffff:7f00:1]"},
		{"private address", "10.0.0.0 10.255.255.255 172.16.0.0 172.31.255.255 192.168.0.0 192.168.255.255 [::ffff:10.0.0.1] [64:ff9b::a00:1] [fc00::1] [fdff::1]"},
		{"shared address", "100.64.0.0 100.127.255.255 [::ffff:100.64.0.1]"},
		{"link-local address", "169.254.0.0 169.254.255.255 [fe80::1] [febf::1] [::ffff:169.254.1.1]"},
		{"metadata address", "169.254.169.254 168.63.129.16 100.100.100.200 192.0.0.192 [fd00:ec2::254] [fd20:ce::254] [::ffff:169.254.169.254] [64:ff9b::a9fe:a9fe]"},
		{"documentation address", "192.0.2.0 192.0.2.255 198.51.100.0 198.51.100.255 203.0.113.0 203.0.113.255 [2001:db8::1] [3fff::1]"},
		{"benchmark address", "198.18.0.0 198.19.255.255 [2001:2::1]"},
		{"multicast address", "224.0.0.1 239.255.255.255 [ff02::1] [::ffff:224.0.0.1]"},
		{"broadcast address", "255.255.255.255"},
		{"reserved address", "192.0.0.0 192.0.0.255 192.88.99.1 240.0.0.0 255.255.255.254 [2001::1] [2001:1ff::1] [2002:7f00:1::1] [::7f00:1] [::2] [100::1] [64:ff9b:1::1] [4000::1] [1fff::1] [5f00::1]"},
		{"site-local address", "[fec0::1] [feff::1]"},
		{"", "[2000::1] [2001:200::1] [2606:4700::1111] [2a00::1] [3ffe::1] [::ffff:8.8.8.8] [64:ff9b::808:808]"},
	} {
		for _, a := range strings.Fields(row.addresses) {
			if got := connect(t, p, a+":443"); got != row.reason {
				t.Errorf("%s: %q, want %q", a, got, row.reason)
			}
		}
	}
	mine := netip.MustParseAddr("8.8.8.8")
	for _, a := range []string{"8.8.8.8:1", "[::ffff:8.8.8.8]:1", "[64:ff9b::808:808]:1"} {
		if r := p.Connect(netip.MustParseAddrPort(a), nil, func(a netip.Addr) bool { return a == mine }); r == nil || r.Reason != "address of the host" {
			t.Errorf("%s: %v", a, r)
		}
	}
	if r := p.Connect(netip.AddrPort{}, nil, nobody); r == nil {
		t.Error("no address is allowed")
	}
}

func TestRules(t *testing.T) {
	for _, row := range []struct {
		allow, deny string
		to, names   string
		reason      string
	}{
		{"1.2.3.4", "", "1.2.3.4:1", "", ""},
		{"1.2.3.4", "", "[::ffff:1.2.3.4]:1", "", ""},
		{"::ffff:1.2.3.4", "", "1.2.3.4:1", "", ""},
		{"1.2.3.4", "", "1.2.3.5:1", "", "not allowed by any rule"},
		{"1.2.3.0/24:443", "", "1.2.3.5:443", "", ""},
		{"1.2.3.0/24:443", "", "1.2.3.5:80", "", "not allowed by any rule"},
		{"example.com", "", "1.2.3.5:80", "example.com", ""},
		{"Example.COM.", "", "1.2.3.5:80", "example.com", ""},
		{"example.com", "", "1.2.3.5:80", "", "not allowed by any rule"},
		{"example.com", "", "1.2.3.5:80", "notexample.com", "not allowed by any rule"},
		{"example.com", "", "1.2.3.5:80", "www.example.com", "not allowed by any rule"},
		{"*.example.com", "", "1.2.3.5:80", "www.example.com", ""},
		{"*.example.com", "", "1.2.3.5:80", "a.b.example.com", ""},
		{"*.example.com", "", "1.2.3.5:80", "example.com", "not allowed by any rule"},
		{"*.example.com", "", "1.2.3.5:80", "badexample.com", "not allowed by any rule"},
		{"example.com:443", "", "1.2.3.5:443", "other.test example.com", ""},
		{"example.com:443", "", "1.2.3.5:80", "example.com", "not allowed by any rule"},
		{"example.com", "", "10.0.0.1:80", "example.com", ""},
		{"example.com:443", "", "10.0.0.1:80", "example.com", "private address"},
		{"example.com 10.0.0.2", "", "10.0.0.1:80", "", "private address"},
		{"*.example.com", "", "10.0.0.1:80", "www.example.com", "private address"},
		{"example.com", "", "198.18.0.1:80", "example.com", ""},
		{"example.com", "", "169.254.169.254:80", "example.com", "metadata address"},
		{"example.com", "", "[64:ff9b::7f00:1]:80", "example.com", "loopback address"},
		{"example.com", "", "[2002:7f00:1::1]:80", "example.com", "reserved address"},
		{"198.18.0.0/15", "", "198.19.0.1:80", "", ""},
		{"192.0.2.7:443", "", "192.0.2.7:443", "", ""},
		{"192.0.2.7:443", "", "192.0.2.7:80", "", "documentation address"},
		{"2001:db8::/48", "", "[2001:db8::1]:80", "", ""},
		{"240.0.0.0/4", "", "255.255.255.255:80", "", "broadcast address"},
		{"240.0.0.0/5", "", "240.1.1.1:80", "", ""},
		{"100::/64", "", "[100::1]:80", "", ""},
		{"1::/64", "", "[1::1]:80", "", "reserved address"},
		{"4000::/16", "", "[4000::1]:80", "", ""},
		{"8000::/1", "", "[fd01::1]:80", "", "private address"},
		{"::/0", "", "[4000::1]:80", "", "reserved address"},
		{"example.com", "", "127.0.0.1:80", "example.com", "loopback address"},
		{"0.0.0.0/0", "", "10.0.0.1:80", "", "private address"},
		{"10.0.0.0/7", "", "10.0.0.1:80", "", "private address"},
		{"10.0.0.0/8", "", "10.0.0.1:80", "", ""},
		{"10.1.0.0/16:5432", "", "10.1.2.3:5432", "", ""},
		{"10.1.0.0/16:5432", "", "10.1.2.3:5433", "", "private address"},
		{"10.1.0.0/16", "", "10.2.2.3:5433", "", "private address"},
		{"100.64.0.0/10", "", "100.64.0.1:1", "", ""},
		{"100.64.0.0/10", "", "100.100.100.200:1", "", "metadata address"},
		{"fd00:1::/32", "", "[fd00:1::1]:1", "", ""},
		{"fd00::/8", "", "[fd00:ec2::254]:1", "", "metadata address"},
		{"127.0.0.0/8", "", "127.0.0.1:80", "", "loopback address"},
		{"169.254.169.254", "", "169.254.169.254:80", "", "metadata address"},
		{"[2606::1]:443", "", "[2606::1]:443", "", ""},
		{"[2606::/16]:443", "", "[2606::1]:443", "", ""},
		{"2606::1", "", "[2606::1]:443", "", ""},
		{"", "1.2.3.0/24", "1.2.3.4:80", "", "denied by 1.2.3.0/24"},
		{"", "1.2.3.0/24:25", "1.2.3.4:80", "", ""},
		{"", "*.example.com", "1.2.3.4:80", "x.example.com", "denied by *.example.com"},
		{"1.2.3.4", "1.2.3.0/24", "1.2.3.4:80", "", "denied by 1.2.3.0/24"},
		{"10.0.0.0/8", "10.0.0.1", "10.0.0.1:80", "", "denied by 10.0.0.1"},
		{"", "0.0.0.0/0", "[64:ff9b::808:808]:80", "", "denied by 0.0.0.0/0"},
	} {
		if got := connect(t, policy(t, strings.Fields(row.allow), strings.Fields(row.deny)), row.to, strings.Fields(row.names)...); got != row.reason {
			t.Errorf("%+v: %q", row, got)
		}
	}
}

func TestNames(t *testing.T) {
	for _, row := range []struct{ allow, deny, name, reason string }{
		{"", "", "example.com", ""},
		{"", "example.com", "Example.com.", "denied by example.com"},
		{"", "example.com:25", "example.com", ""},
		{"*.example.com:443", "", "a.example.com", ""},
		{"*.example.com", "", "b.test", "not allowed by any rule"},
		{"1.2.3.4", "", "b.test", "not allowed by any rule"},
		{"0.0.0.0/0:443", "", "b.test", ""},
		{"*.example.com", "b.example.com", "b.example.com", "denied by b.example.com"},
	} {
		got := ""
		if r := policy(t, strings.Fields(row.allow), strings.Fields(row.deny)).Name(row.name); r != nil {
			got = r.Reason
		}
		if got != row.reason {
			t.Errorf("%+v: %q", row, got)
		}
	}
	for _, row := range []struct{ allow, deny, name, address, reason string }{
		{"", "", "a.test", "1.2.3.4", ""},
		{"", "", "a.test", "10.0.0.1", "private address"},
		{"", "", "a.test", "::ffff:127.0.0.1", "loopback address"},
		{"a.test:443", "", "a.test", "1.2.3.4", ""},
		{"a.test:443", "", "a.test", "192.168.0.1", ""},
		{"*.a.test:443", "", "b.a.test", "192.168.0.1", "private address"},
		{"a.test:443", "", "a.test", "127.0.0.1", "loopback address"},
		{"a.test 10.0.0.0/8:80", "", "a.test", "10.0.0.1", ""},
		{"", "1.2.3.4", "a.test", "1.2.3.4", "denied by 1.2.3.4"},
		{"", "1.2.3.4:25", "a.test", "1.2.3.4", ""},
	} {
		got := ""
		if r := policy(t, strings.Fields(row.allow), strings.Fields(row.deny)).Resolve(row.name, netip.MustParseAddr(row.address), nobody); r != nil {
			got = r.Reason
		}
		if (got == "") != (row.reason == "") {
			t.Errorf("%+v: %q", row, got)
		}
	}
}

func TestMalformedRules(t *testing.T) {
	for _, text := range []string{
		"", ":", ":80", "*", "*.", "*.com", "com", "localhost", "a..b", "a.b:", "a.b:0", "a.b:65536", "a.b:x", "1.2.3", "1.2.3.4.5", "0x7f.1", "1.2.3.4/33", "::1%eth0",
		"[::1", "[]", "[]:1", "a b.c", "a.b/24", "-a.b", "a-.b", "http://a.b", "a.b:80:80", "*.*.a.b", "a.*.b", "2130706433", "0177.0.0.1", "::ffff:0:0/90",
		strings.Repeat("a", 64) + ".b", strings.Repeat("a.", 130) + "b",
	} {
		if p, err := New([]string{text}, nil); err == nil {
			t.Errorf("%q is a rule: %+v", text, p.allow)
		}
	}
	if _, err := New(nil, make([]string, MaxRules+1)); err == nil {
		t.Error("any number of rules")
	}
}

// TestOpen checks that rules that open addresses refuse nothing else.
func TestOpen(t *testing.T) {
	for _, row := range []struct{ allow, deny, to, names, reason string }{
		{"", "", "10.0.0.1:443", "mirror.test", ""},
		{"", "", "10.0.0.1:80", "mirror.test", "private address"},
		{"", "", "10.0.0.1:443", "other.test", "private address"},
		{"", "", "1.2.3.4:80", "", ""},
		{"other.test", "", "10.0.0.1:443", "mirror.test", ""},
		{"other.test", "", "1.2.3.4:443", "mirror.test", ""},
		{"other.test", "", "1.2.3.4:443", "", "not allowed by any rule"},
		{"", "mirror.test", "10.0.0.1:443", "mirror.test", "denied by mirror.test"},
		{"", "", "127.0.0.1:443", "mirror.test", "loopback address"},
	} {
		p, err := NewOpen(strings.Fields(row.allow), strings.Fields(row.deny), []string{"mirror.test:443"})
		if err != nil {
			t.Fatal(err)
		}
		if got := connect(t, p, row.to, strings.Fields(row.names)...); got != row.reason {
			t.Errorf("%+v: %q", row, got)
		}
		if r := p.Name("mirror.test"); row.deny == "" && r != nil {
			t.Errorf("%+v: %v", row, r)
		}
	}
	if _, err := NewOpen(nil, nil, []string{"x"}); err == nil {
		t.Error("a malformed rule is accepted")
	}
}

// TestRulesThatNeverMatch checks that such rules are found, and that others are not.
func TestRulesThatNeverMatch(t *testing.T) {
	mine := netip.MustParseAddr("192.168.1.7")
	for _, row := range []struct{ allow, deny, want string }{
		{"", "127.0.0.0/8 0.0.0.0/0", ""},
		{"10.0.0.0/8 198.18.0.1 example.com *.example.com:443 0.0.0.0/0 ::/0 192.168.1.0/24 1.2.3.4", "10.1.0.0/16 example.com:443 1.2.3.4:80", ""},
		{"1.2.3.4 127.0.0.1", "", "127.0.0.1 can never match: no rule opens loopback addresses"},
		{"[::1]:80", "", "[::1]:80 can never match: no rule opens loopback addresses"},
		{"169.254.0.0/16", "", "link-local addresses"},
		{"169.254.169.254:80", "", "metadata addresses"},
		{"::ffff:127.0.0.1", "", "loopback addresses"},
		{"64:ff9b::7f00:1", "", "loopback addresses"},
		{"224.0.0.0/8", "", "multicast addresses"},
		{"2002::/16", "", "reserved addresses"},
		{"192.168.1.7", "", "addresses of the host"},
		{"example.com:853", "", "port 853 (DNS over TLS) is always refused"},
		{"a.localhost", "", "belongs to the machine itself"},
		{"1.2.3.4", "0.0.0.0/0", "the rule to deny 0.0.0.0/0 covers it"},
		{"1.2.3.4:80", "1.2.3.0/24:80", "the rule to deny 1.2.3.0/24:80 covers it"},
		{"www.example.com", "*.example.com", "the rule to deny *.example.com covers it"},
		{"*.example.com", "*.example.com", "covers it"},
		{"*.a.example.com", "*.example.com", "covers it"},
		{"example.com", "*.example.com", ""},
		{"*.example.com", "www.example.com", ""},
		{"*.example.com", "example.com", ""},
	} {
		err := policy(t, strings.Fields(row.allow), strings.Fields(row.deny)).Check(func(a netip.Addr) bool { return a == mine })
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v: %v", row, err)
		}
	}
}

// FuzzRule checks that no rule opens an address that must never be reachable.
func FuzzRule(f *testing.F) {
	for _, s := range []string{"10.0.0.0/8", "a.b:1", "*.a.b", "[::1]:1", "::ffff:127.0.0.1", "0/0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := New([]string{text}, nil)
		if err != nil {
			return
		}
		for _, never := range []string{"127.0.0.1:1", "169.254.169.254:80", "[::1]:1", "[fe80::1]:1", "224.0.0.1:1", "[::ffff:127.0.0.1]:1", "[64:ff9b::7f00:1]:1"} {
			if r := p.Connect(netip.MustParseAddrPort(never), []string{text}, nobody); r == nil {
				t.Errorf("%q opens %s", text, never)
			}
		}
	})
}
