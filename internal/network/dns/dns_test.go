package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/dns/dnsmessage"
)

// world is a resolver that has a few names. It is also a filter that refuses names containing
// "refused", and private addresses.
type world struct {
	addresses map[string][]netip.Addr // addresses by name and network
	fail      map[string]error        // errors by the name that is looked up

	mu    sync.Mutex
	asked []string
}

func newWorld() *world {
	return &world{
		addresses: map[string][]netip.Addr{
			"both.example. ip4":  addresses("192.0.2.1", "192.0.2.2"),
			"both.example. ip6":  addresses("2001:db8::1"),
			"four.example. ip4":  addresses("::ffff:192.0.2.4"), // Go returns addresses from the hosts file in this form
			"six.example. ip6":   addresses("2001:db8::6%eth0", "::ffff:10.0.0.1"),
			"inner.example. ip4": addresses("10.0.0.1"),
			"mixed.example. ip4": addresses("10.0.0.1", "192.0.2.5"),
			"half.example. ip4":  addresses("192.0.2.6"),
			"half.example. ip6":  addresses("fd00::1"),
			"many.example. ip4":  slices.Repeat(addresses("192.0.2.7"), 100),
		},
		fail: map[string]error{
			"slow.example. ip4":  &net.DNSError{Err: "timeout", IsTimeout: true},
			"torn.example. ip6":  &net.DNSError{Err: "server misbehaving", IsTemporary: true},
			"files.example. ip6": &net.AddrError{Err: "no suitable address found"},
			"files.example. ip4": &net.AddrError{Err: "no suitable address found"},
			"broken.example.":    errors.New("broken"),
		},
	}
}

func addresses(text ...string) (all []netip.Addr) {
	for _, a := range text {
		all = append(all, netip.MustParseAddr(a))
	}
	return all
}

// ask records a query and returns the error that the query should have.
func (w *world) ask(ctx context.Context, question string) error {
	w.mu.Lock()
	w.asked = append(w.asked, question)
	w.mu.Unlock()
	if _, ok := ctx.Deadline(); !ok {
		panic("a lookup without a deadline")
	}
	return w.fail[question]
}

func found[T any](w *world, ctx context.Context, name string, all ...T) ([]T, error) {
	if err := w.ask(ctx, name); err != nil {
		return nil, err
	}
	if name != "both.example." {
		return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
	}
	return all, nil
}

func (w *world) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if err := w.ask(ctx, host+" "+network); err != nil {
		return nil, err
	}
	if all := w.addresses[host+" "+network]; len(all) > 0 {
		return slices.Clone(all), nil
	}
	return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
}

func (w *world) LookupCNAME(ctx context.Context, host string) (string, error) {
	switch host {
	case "alias.example.":
		return "both.example.", nil
	case "files.example.":
		return "myhost.", nil
	case "both.example.":
		return "BOTH.example.", nil
	}
	_, err := found[string](w, ctx, host)
	return "", err
}

func (w *world) LookupTXT(ctx context.Context, name string) ([]string, error) {
	if name == "long.example." {
		return slices.Repeat([]string{strings.Repeat("t", 60000)}, 3), nil
	}
	return found(w, ctx, name, "v=1", strings.Repeat("x", 600), "")
}

func (w *world) LookupMX(ctx context.Context, name string) ([]*net.MX, error) {
	if name == "torn.example." {
		return []*net.MX{{Host: "ok.example.", Pref: 5}}, &net.DNSError{Err: "malformed"}
	}
	return found(w, ctx, name,
		&net.MX{Host: "mx.example.", Pref: 10}, &net.MX{Host: "192.0.2.9", Pref: 20}, &net.MX{Host: "."}, &net.MX{Host: strings.Repeat("a.", 200)})
}

func (w *world) LookupNS(ctx context.Context, name string) ([]*net.NS, error) {
	if name == "torn.example." {
		return []*net.NS{{Host: "a..b."}}, nil
	}
	return found(w, ctx, name, &net.NS{Host: "ns.example."})
}

func (w *world) LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error) {
	if service != "" || proto != "" {
		panic("a service in parts")
	}
	all, err := found(w, ctx, name, &net.SRV{Target: "srv.example.", Port: 443, Priority: 1, Weight: 2})
	return "", all, err
}

func (w *world) LookupAddr(ctx context.Context, address string) ([]string, error) {
	if err := w.ask(ctx, address); err != nil {
		return nil, err
	}
	return []string{"myhost.", "a.localhost.", "both.example."}, nil
}

func (w *world) Name(name string) error {
	if strings.Contains(name, "refused") {
		return errors.New("refused")
	}
	return nil
}

func (w *world) Addresses(name string, found []netip.Addr) []netip.Addr {
	if len(found) == 0 || len(found) > MaxRecords || strings.HasSuffix(name, ".") {
		panic("a wrong question to the filter")
	}
	return slices.DeleteFunc(found, netip.Addr.IsPrivate)
}

// ask returns a query message.
func ask(name string, t dnsmessage.Type) dnsmessage.Message {
	return dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 4711, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: t, Class: dnsmessage.ClassINET}},
	}
}

func edns(m dnsmessage.Message, size int, version byte) dnsmessage.Message {
	var h dnsmessage.ResourceHeader
	h.SetEDNS0(size, 0, true)
	h.TTL |= uint32(version) << 16
	cookie := &dnsmessage.OPTResource{Options: []dnsmessage.Option{{Code: 10, Data: make([]byte, 8)}}}
	m.Additionals = append(m.Additionals, dnsmessage.Resource{Header: h, Body: cookie})
	return m
}

func pack(t testing.TB, m dnsmessage.Message) []byte {
	t.Helper()
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func answer(t testing.TB, s *Server, query dnsmessage.Message, stream bool) (dnsmessage.Message, int) {
	t.Helper()
	b := s.Answer(t.Context(), pack(t, query), stream)
	var m dnsmessage.Message
	if err := m.Unpack(b); err != nil {
		t.Fatalf("%x: %v", b, err)
	}
	return m, len(b)
}

// summary returns the records in an answer. If the answer has no records, it returns the response
// code.
func summary(m dnsmessage.Message) []string {
	var all []string
	for _, a := range m.Answers {
		switch b := a.Body.(type) {
		case *dnsmessage.AResource:
			all = append(all, netip.AddrFrom4(b.A).String())
		case *dnsmessage.AAAAResource:
			all = append(all, netip.AddrFrom16(b.AAAA).String())
		case *dnsmessage.CNAMEResource:
			all = append(all, b.CNAME.String())
		case *dnsmessage.PTRResource:
			all = append(all, b.PTR.String())
		case *dnsmessage.NSResource:
			all = append(all, b.NS.String())
		case *dnsmessage.MXResource:
			all = append(all, b.MX.String())
		case *dnsmessage.SRVResource:
			all = append(all, b.Target.String())
		case *dnsmessage.TXTResource:
			all = append(all, strings.Join(b.TXT, "|"))
		}
	}
	if len(all) == 0 {
		return []string{strings.TrimPrefix(m.RCode.String(), "RCode")}
	}
	return all
}

func TestAnswers(t *testing.T) {
	const a, aaaa, cname, mx, ns, ptr, srv, txt = dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypeCNAME, dnsmessage.TypeMX,
		dnsmessage.TypeNS, dnsmessage.TypePTR, dnsmessage.TypeSRV, dnsmessage.TypeTXT
	const nothing, missing, refused, failure, unknown = "Success", "NameError", "Refused", "ServerFailure", "NotImplemented"
	nibbles := func(address string) string {
		var b strings.Builder
		for _, c := range slices.Backward(addresses(address)[0].AsSlice()) {
			b.WriteString(string("0123456789abcdef"[c&15]) + "." + string("0123456789abcdef"[c>>4]) + ".")
		}
		return b.String() + "ip6.arpa."
	}
	for _, c := range []struct {
		name string
		t    dnsmessage.Type
		want []string
	}{
		{"both.example.", a, []string{"192.0.2.1", "192.0.2.2"}},
		{"BOTH.eXample.", aaaa, []string{"2001:db8::1"}},
		{"four.example.", a, []string{"192.0.2.4"}},
		{"four.example.", aaaa, []string{nothing}},
		{"six.example.", aaaa, []string{"2001:db8::6"}},
		{"six.example.", a, []string{nothing}},
		{"none.example.", a, []string{missing}},
		{"none.example.", aaaa, []string{missing}},
		{"files.example.", aaaa, []string{missing}},
		{"slow.example.", a, []string{failure}},
		{"slow.example.", aaaa, []string{failure}}, // the lookup of the other type fails, so it is unknown whether the name exists
		{"torn.example.", a, []string{failure}},
		{"inner.example.", a, []string{refused}},
		{"inner.example.", aaaa, []string{nothing}},
		{"mixed.example.", a, []string{"192.0.2.5"}},
		{"half.example.", a, []string{"192.0.2.6"}},
		{"half.example.", aaaa, []string{nothing}}, // not REFUSED, because clients would apply that to the whole name
		{"refused.example.", a, []string{refused}},
		{"refused.example.", dnsmessage.TypeHTTPS, []string{refused}},

		{"alias.example.", cname, []string{"both.example."}},
		{"both.example.", cname, []string{nothing}},
		{"files.example.", cname, []string{nothing}},
		{"none.example.", cname, []string{nothing}},
		{"broken.example.", cname, []string{failure}},
		{"both.example.", txt, []string{"v=1", strings.Repeat("x", 255) + "|" + strings.Repeat("x", 255) + "|" + strings.Repeat("x", 90), ""}},
		{"long.example.", txt, []string{failure}},
		{"both.example.", mx, []string{"mx.example.", "192.0.2.9.", "."}},
		{"torn.example.", mx, []string{"ok.example."}},
		{"broken.example.", mx, []string{failure}},
		{"both.example.", ns, []string{"ns.example."}},
		{"torn.example.", ns, []string{failure}},
		{"both.example.", srv, []string{"srv.example."}},
		{"none.example.", srv, []string{nothing}},
		{"both.example.", dnsmessage.TypeHTTPS, []string{nothing}},
		{"both.example.", dnsmessage.TypeSOA, []string{nothing}},
		{"both.example.", ptr, []string{nothing}},
		{"both.example.", dnsmessage.TypeALL, []string{unknown}},
		{"both.example.", dnsmessage.TypeAXFR, []string{unknown}},

		{"1.2.0.192.in-addr.arpa.", ptr, []string{"both.example."}},
		{"1.2.0.192.in-addr.arpa.", a, []string{nothing}},
		{"1.2.0.192.in-addr.arpa.", txt, []string{nothing}},
		{"2.0.192.in-addr.arpa.", ptr, []string{nothing}},
		{"1.2.0.300.in-addr.arpa.", ptr, []string{nothing}},
		{"1.0.0.10.in-addr.arpa.", ptr, []string{missing}},
		{"1.0.0.127.in-addr.arpa.", ptr, []string{missing}},
		{"1.0.64.100.in-addr.arpa.", ptr, []string{missing}},
		{nibbles("2001:db8::1"), ptr, []string{"both.example."}},
		{nibbles("2001:db8::1")[2:], ptr, []string{nothing}},
		{nibbles("fd00::1"), ptr, []string{missing}},
		{nibbles("::1"), ptr, []string{missing}},
		{nibbles("::ffff:10.0.0.1"), ptr, []string{missing}},

		{"gateway.pyro.internal.", a, []string{"10.87.3.1"}},
		{"Gateway.pyro.internal.", aaaa, []string{nothing}},
		{"gateway.pyro.internal.", txt, []string{nothing}},
	} {
		s := &Server{Resolver: newWorld(), Filter: newWorld(), IPv6: true, Hosts: map[string]netip.Addr{"gateway.pyro.internal": netip.MustParseAddr("10.87.3.1")}}
		query := ask(c.name, c.t)
		got, _ := answer(t, s, query, true)
		if d := cmp.Diff(c.want, summary(got)); d != "" {
			t.Errorf("%s %v, -want +got:\n%s", c.name, c.t, d)
		}
		if got.ID != 4711 || !got.Response || !got.RecursionAvailable || !got.RecursionDesired || got.Truncated || !cmp.Equal(got.Questions, query.Questions) {
			t.Errorf("%s %v: %v", c.name, c.t, got.GoString())
		}
		for _, r := range got.Answers {
			if r.Header.TTL != TTL || r.Header.Type != c.t || r.Header.Name != query.Questions[0].Name {
				t.Errorf("%s %v: %v", c.name, c.t, r.GoString())
			}
		}
	}
}

// TestWithoutIPv6 checks that a server without IPv6 looks up IPv6 addresses only to find out
// whether a name has any.
func TestWithoutIPv6(t *testing.T) {
	for name, want := range map[string][2]string{
		"both.example.":  {"192.0.2.1", "Success"},
		"six.example.":   {"Success", "Success"},
		"none.example.":  {"NameError", "Success"},
		"inner.example.": {"Refused", "Success"},
	} {
		w := newWorld()
		s := &Server{Resolver: w, Filter: w}
		for i, kind := range []dnsmessage.Type{dnsmessage.TypeAAAA, dnsmessage.TypeA} {
			got, _ := answer(t, s, ask(name, kind), true)
			if summary(got)[0] != want[1-i] {
				t.Errorf("%s %v: %v", name, kind, summary(got))
			}
			if kind == dnsmessage.TypeAAAA && len(w.asked) > 0 {
				t.Errorf("%s: queried servers: got %v", name, w.asked)
			}
		}
	}
}

// TestHostNames checks that the resolver never gets names that are local to the host.
func TestHostNames(t *testing.T) {
	w := newWorld()
	s := &Server{Resolver: w, Filter: w, IPv6: true}
	for name, want := range map[string]string{
		".":                          "Success",
		"myhost.":                    "Success",
		"_gateway.":                  "Success",
		"com.":                       "Success",
		"localhost.":                 "NameError",
		"LocalHost.":                 "NameError",
		"db.localhost.":              "NameError",
		"localhost.localdomain.":     "NameError",
		"127.0.0.1.":                 "NameError",
		"127.1.":                     "NameError",
		"2130706433.":                "NameError",
		"0x7f.0x1.":                  "NameError",
		"::1.":                       "Success",
		"::ffff:10.0.0.1.":           "Success",
		"fe80::1%eth0.example.":      "Success",
		"*.example.":                 "Success",
		"a b.example.":               "Success",
		"\u212aelvin.example.":       "Success", // U+212A (Kelvin sign), which lower-cases to k
		"x\x00.example.":             "Success",
		"home.arpa.":                 "Success",
		"1.in-addr.arpa.":            "Success",
		"x.1.0.0.10.in-addr.arpa.":   "Success",
		"1.0.0.10.in-addr.arpa.":     "NameError",
		"01.0.0.10.in-addr.arpa.":    "Success",
		"1.0.0.10.in-addr.ARPA.":     "NameError",
		"254.169.254.ip6.arpa.":      "Success",
		"254.169.254.169.localhost.": "NameError",
	} {
		for _, kind := range []dnsmessage.Type{
			dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypePTR, dnsmessage.TypeTXT, dnsmessage.TypeNS, dnsmessage.TypeCNAME,
		} {
			if got, _ := answer(t, s, ask(name, kind), false); summary(got)[0] != want {
				t.Errorf("%q %v: %v", name, kind, summary(got))
			}
		}
	}
	if len(w.asked) > 0 {
		t.Errorf("queried names: got %q", w.asked)
	}
}

func TestMalformedQueries(t *testing.T) {
	w := newWorld()
	s := &Server{Resolver: w, Filter: w}
	fine := pack(t, ask("both.example.", dnsmessage.TypeA))
	reply := ask("both.example.", dnsmessage.TypeA)
	reply.Response = true
	for name, query := range map[string][]byte{"nothing": nil, "a cut header": fine[:11], "a reply": pack(t, reply)} {
		if got := s.Answer(t.Context(), query, false); got != nil {
			t.Errorf("%s is answered: %x", name, got)
		}
	}
	change := func(change func(*dnsmessage.Message)) []byte {
		m := ask("both.example.", dnsmessage.TypeA)
		change(&m)
		return pack(t, m)
	}
	loop := append(slices.Clone(fine[:12]), 0xc0, 12, 0, 1, 0, 1)
	for name, c := range map[string]struct {
		query     []byte
		code      dnsmessage.RCode
		questions int
	}{
		"an update":            {change(func(m *dnsmessage.Message) { m.OpCode = 5 }), dnsmessage.RCodeNotImplemented, 0},
		"no question":          {change(func(m *dnsmessage.Message) { m.Questions = nil }), dnsmessage.RCodeFormatError, 0},
		"two questions":        {change(func(m *dnsmessage.Message) { m.Questions = append(m.Questions, m.Questions...) }), dnsmessage.RCodeFormatError, 0},
		"a cut question":       {fine[:len(fine)-1], dnsmessage.RCodeFormatError, 0},
		"a name in itself":     {loop, dnsmessage.RCodeFormatError, 0},
		"another class":        {change(func(m *dnsmessage.Message) { m.Questions[0].Class = dnsmessage.ClassCHAOS }), dnsmessage.RCodeNotImplemented, 1},
		"EDNS twice":           {pack(t, edns(edns(ask("both.example.", dnsmessage.TypeA), 512, 0), 512, 0)), dnsmessage.RCodeFormatError, 1},
		"missing additionals":  {slices.Replace(slices.Clone(fine), 11, 12, 3), dnsmessage.RCodeFormatError, 1},
		"missing answers":      {slices.Replace(slices.Clone(fine), 7, 8, 3), dnsmessage.RCodeFormatError, 1},
		"bytes after its end":  {append(slices.Clone(fine), 1, 2, 3), dnsmessage.RCodeSuccess, 1},
		"EDNS of the future":   {pack(t, edns(ask("both.example.", dnsmessage.TypeA), 4096, 1)), 0, 1},
		"an additional record": {change(func(m *dnsmessage.Message) { m.Additionals = ask1(m) }), dnsmessage.RCodeSuccess, 1},
	} {
		var got dnsmessage.Message
		if err := got.Unpack(s.Answer(t.Context(), c.query, false)); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got.ID != 4711 || got.RCode != c.code || len(got.Questions) != c.questions {
			t.Errorf("%s: %v", name, got.GoString())
		}
	}
}

func ask1(m *dnsmessage.Message) []dnsmessage.Resource {
	h := dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET}
	return []dnsmessage.Resource{{Header: h, Body: &dnsmessage.AResource{}}}
}

// TestSizes checks answers that are longer than 512 bytes, than the client's limit, and than the
// maximum size of a packet.
func TestSizes(t *testing.T) {
	w := newWorld()
	s := &Server{Resolver: w, Filter: w}
	for _, c := range []struct {
		query   dnsmessage.Message
		stream  bool
		answers int // 0 means truncated
	}{
		{ask("many.example.", dnsmessage.TypeA), false, 0},
		{ask("many.example.", dnsmessage.TypeA), true, MaxRecords},
		{edns(ask("many.example.", dnsmessage.TypeA), 4096, 0), false, MaxRecords},
		{edns(ask("many.example.", dnsmessage.TypeA), 600, 0), false, 0},
		{edns(ask("both.example.", dnsmessage.TypeTXT), 600, 0), false, 0},
		{edns(ask("both.example.", dnsmessage.TypeTXT), 1232, 0), false, 3},
		{edns(ask("both.example.", dnsmessage.TypeA), 0, 0), false, 2},
	} {
		got, size := answer(t, s, c.query, c.stream)
		limit := minUDP
		if len(c.query.Additionals) > 0 {
			limit = min(max(int(c.query.Additionals[0].Header.Class), minUDP), maxUDP)
		}
		if len(got.Answers) != c.answers || got.Truncated != (c.answers == 0) || got.RCode != 0 || !c.stream && size > limit {
			t.Errorf("%d answers in %d bytes, truncated %v, %v", len(got.Answers), size, got.Truncated, got.RCode)
		}
		if len(got.Additionals) != len(c.query.Additionals) || len(got.Additionals) > 0 && got.Additionals[0].Header.Class != maxUDP {
			t.Errorf("additionals %v", got.Additionals)
		}
	}
	got, _ := answer(t, s, edns(ask("both.example.", dnsmessage.TypeA), 4096, 1), false)
	if h := got.Additionals[0].Header; h.ExtendedRCode(got.RCode) != badVersion || len(got.Answers) > 0 {
		t.Errorf("EDNS of another version: %v", got.GoString())
	}
}

// stuck is a resolver that blocks until the context is done.
type stuck struct{ *world }

func (stuck) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	<-ctx.Done()
	return nil, &net.DNSError{Err: ctx.Err().Error(), Name: host, IsTimeout: true}
}

func TestCanceledQuery(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	var m dnsmessage.Message
	s := &Server{Resolver: stuck{newWorld()}, Filter: newWorld()}
	if err := m.Unpack(s.Answer(ctx, pack(t, ask("both.example.", dnsmessage.TypeA)), false)); err != nil || m.RCode != dnsmessage.RCodeServerFailure {
		t.Errorf("%v, %v", m.RCode, err)
	}
}

// through returns Go's resolver, configured so that it sends its queries to s.
func through(s *Server) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		here, there := net.Pipe() // because of the pipe, Go uses the TCP format
		go func() {
			defer there.Close()
			var size [2]byte
			for {
				if _, err := io.ReadFull(there, size[:]); err != nil {
					return
				}
				query := make([]byte, binary.BigEndian.Uint16(size[:]))
				if _, err := io.ReadFull(there, query); err != nil {
					return
				}
				reply := s.Answer(ctx, query, true)
				there.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
			}
		}()
		return here, nil
	}}
}

// TestGoResolver connects one server to another through Go's resolver. Both servers must return the
// same answers.
func TestGoResolver(t *testing.T) {
	w := newWorld()
	far := &Server{Resolver: w, Filter: w, IPv6: true}
	near := &Server{Resolver: through(far), Filter: w, IPv6: true}
	for _, name := range []string{"both", "four", "six", "none", "mixed", "half", "many", "alias", "files", "torn"} {
		name += ".example."
		for _, kind := range []dnsmessage.Type{
			dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypeTXT, dnsmessage.TypeMX, dnsmessage.TypeNS, dnsmessage.TypeSRV, dnsmessage.TypeCNAME,
		} {
			if name == "torn.example." && kind == dnsmessage.TypeCNAME {
				continue // Go also looks up addresses, and returns one of the two errors
			}
			want, _ := answer(t, far, ask(name, kind), true)
			got, _ := answer(t, near, ask(name, kind), true)
			a, b := summary(got), summary(want)
			slices.Sort(a)
			slices.Sort(b)
			if d := cmp.Diff(b, a); d != "" {
				t.Errorf("%s %v, -want +got:\n%s", name, kind, d)
			}
		}
	}
	got, _ := answer(t, near, ask("1.2.0.192.in-addr.arpa.", dnsmessage.TypePTR), true)
	if d := cmp.Diff([]string{"both.example."}, summary(got)); d != "" {
		t.Errorf("PTR, -want +got:\n%s", d)
	}
	if got, _ := answer(t, near, ask("hidden.onion.", dnsmessage.TypeA), true); got.RCode != dnsmessage.RCodeNameError {
		t.Errorf("name that Go does not look up: got %v", got.RCode)
	}
}

func FuzzAnswer(f *testing.F) {
	for _, m := range []dnsmessage.Message{
		ask("both.example.", dnsmessage.TypeA), edns(ask("BOTH.example.", dnsmessage.TypeTXT), 1232, 0), ask("1.2.0.192.in-addr.arpa.", dnsmessage.TypePTR),
		ask("long.example.", dnsmessage.TypeTXT), ask("both.example.", dnsmessage.TypeMX), edns(ask("many.example.", dnsmessage.TypeA), 65535, 3),
		ask("alias.example.", dnsmessage.TypeCNAME), ask("torn.example.", dnsmessage.TypeNS), ask(strings.Repeat("a.", 120), dnsmessage.TypeSRV),
	} {
		b, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, false)
		f.Add(b, true)
	}
	f.Fuzz(func(t *testing.T, query []byte, stream bool) {
		w := newWorld()
		s := &Server{Resolver: w, Filter: w, IPv6: true, Hosts: map[string]netip.Addr{"gateway.pyro.internal": netip.MustParseAddr("10.87.3.1")}}
		got := s.Answer(t.Context(), query, stream)
		isQuery := len(query) >= 12 && query[2]&0x80 == 0
		if (got != nil) != isQuery {
			t.Fatalf("%x is answered by %x", query, got)
		}
		if got == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(got); err != nil {
			t.Fatalf("%x: %v", got, err)
		}
		if !m.Response || got[0] != query[0] || got[1] != query[1] || len(m.Answers) > MaxRecords || !stream && len(got) > maxUDP || len(got) > 65535 {
			t.Fatalf("%v in %d bytes", m.GoString(), len(got))
		}
		if m.Truncated && (stream || len(m.Answers) > 0) || len(m.Answers) > 0 && m.RCode != 0 {
			t.Fatal(m.GoString())
		}
		for _, question := range w.asked {
			name, _, _ := strings.Cut(question, " ")
			if strings.ToLower(name) != name || !strings.ContainsAny(strings.TrimSuffix(name, "."), ".:") {
				t.Fatalf("queried name: got %q", question)
			}
		}
	})
}
