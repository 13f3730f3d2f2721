// Package dns answers a machine's DNS queries with what the host's resolver finds and a filter lets through.
//
// It is no forwarder: nothing of a query but a checked name and its type leaves it, and nothing of another server's reply comes back but the records asked for.
// As Go's resolver tells records only, some of what DNS has is lost. All records live for 30 seconds; a chain of aliases is told as its end; nothing is signed;
// and a name that has records of other types only, or none but names below it, is told not to exist when its addresses are asked for.
package dns

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// TTL is how long a machine may keep an answer, in seconds. Go does not tell how long it is true.
	TTL = 30
	// MaxRecords is how many records an answer has at most.
	MaxRecords = 64

	lookupTime = 10 * time.Second // for one query
)

// Resolver looks names up, as a *net.Resolver does. The names that it gets end in a dot, so that no domains are searched. What the host's files have for a name
// with a dot within is found: that is for the filter.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupCNAME(ctx context.Context, host string) (string, error)
	LookupTXT(ctx context.Context, name string) ([]string, error)
	LookupMX(ctx context.Context, name string) ([]*net.MX, error)
	LookupNS(ctx context.Context, name string) ([]*net.NS, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
	LookupAddr(ctx context.Context, addr string) ([]string, error)
}

// Filter decides what a machine is told. Names are lower-case, without the dot at their end. It is called concurrently.
type Filter interface {
	// Name refuses a name before anything of it is looked up, with an error. Names of addresses, for PTR, are asked for too, as 1.2.0.192.in-addr.arpa.
	Name(name string) error
	// Addresses tells which of the addresses that a name has may be told. They are either all IPv4 or all IPv6, at most MaxRecords and never none. The machine is
	// told what is returned. Where that is nothing it may be asked for the name's other addresses too, which only tell whether all of the name is refused.
	Addresses(name string, found []netip.Addr) (allowed []netip.Addr)
}

// Server answers one machine. It is safe for concurrent use.
type Server struct {
	Resolver Resolver
	Filter   Filter
	Hosts    map[string]netip.Addr // names of the link's own, as a filter gets them, told without asking anybody
	IPv6     bool                  // whether the machine has it; otherwise names have no addresses of it
}

// Answer is the reply to a query, or nil for what is none. Over a stream (TCP, without its length) it has at most 65535 bytes. Otherwise (UDP) it has as many
// as the client takes, 512 if it does not say and never more than 1232; a longer one is cut to none of its records, with the flag that tells to ask again by a
// stream. It takes at most 10 seconds, or until ctx is done, which both are a failure that the client is told of (SERVFAIL).
//
// A, AAAA, CNAME, MX, NS, PTR, SRV and TXT of the Internet are looked up. Other types have no data, and what is no type of records (ANY, AXFR) is not
// implemented. A name that is refused, or whose addresses are all refused, is REFUSED.
func (s *Server) Answer(ctx context.Context, query []byte, stream bool) []byte {
	q, code, ok := parse(query)
	if !ok {
		return nil
	}
	var found []dnsmessage.ResourceBody
	if code == dnsmessage.RCodeSuccess {
		ctx, cancel := context.WithTimeout(ctx, lookupTime)
		defer cancel()
		found, code = s.resolve(ctx, q.questions[0])
	}
	return q.reply(found, code, stream)
}

// resolve finds the records that a question asks for. None of them and success is that there is no data of the type.
func (s *Server) resolve(ctx context.Context, q dnsmessage.Question) ([]dnsmessage.ResourceBody, dnsmessage.RCode) {
	if q.Class != dnsmessage.ClassINET || isMeta(q.Type) {
		return nil, dnsmessage.RCodeNotImplemented
	}
	name, ok := canonical(q.Name.String())
	if !ok {
		return nil, dnsmessage.RCodeSuccess
	}
	if address, ok := s.Hosts[name]; ok {
		return addressRecords(ofType(q.Type, []netip.Addr{address})), dnsmessage.RCodeSuccess
	}
	if code, ok := special(name, q.Type); ok {
		return nil, code
	}
	if s.Filter.Name(name) != nil {
		return nil, dnsmessage.RCodeRefused
	}
	if q.Type == dnsmessage.TypeA || q.Type == dnsmessage.TypeAAAA && s.IPv6 {
		found, code := s.addresses(ctx, name, q.Type)
		return addressRecords(found), code
	}
	return s.others(ctx, name, q.Type)
}

// isMeta tells the types that are no type of a record (RFC 6895, section 3.1).
func isMeta(t dnsmessage.Type) bool { return t == dnsmessage.TypeOPT || t >= 128 && t <= 255 }

// canonical is a name in lower case without the dot at its end. It is not ok where it has other characters than names of hosts and services have.
func canonical(name string) (string, bool) {
	for _, c := range []byte(name) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.') {
			return "", false
		}
	}
	return strings.ToLower(strings.TrimSuffix(name, ".")), true
}
