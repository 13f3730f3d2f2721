// Package dns answers the DNS queries of a machine with the host's resolver, and filters the
// answers.
//
// The package does not forward messages. Only a checked name and its type leave the machine, and
// only the requested records come back. Go's resolver returns less than DNS offers. This has these
// effects:
//
//   - All records have a TTL of 30 seconds.
//   - For a chain of aliases, the answer contains only the last target.
//   - Answers have no signatures.
//   - If a name has no addresses, a query for its addresses returns NXDOMAIN, even if the name has
//     other records or names below it.
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
	// TTL is the lifetime of all records, in seconds. Go's resolver does not return the real
	// lifetime.
	TTL = 30
	// MaxRecords is the maximum number of records in an answer.
	MaxRecords = 64

	lookupTime = 10 * time.Second // maximum time per query
)

// Resolver looks up names like *net.Resolver. All names end in a dot, so that the resolver does not
// try the host's search domains. The resolver still finds names with a dot that are in the host's
// hosts file, so the filter must check these names too.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupCNAME(ctx context.Context, host string) (string, error)
	LookupTXT(ctx context.Context, name string) ([]string, error)
	LookupMX(ctx context.Context, name string) ([]*net.MX, error)
	LookupNS(ctx context.Context, name string) ([]*net.NS, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
	LookupAddr(ctx context.Context, addr string) ([]string, error)
}

// Filter decides which names a machine is allowed to look up. Names are in lower case without a
// trailing dot. Calls can be concurrent.
type Filter interface {
	// Name returns an error if the machine must not look up the name. The server also calls it for
	// reverse lookups, with names such as 1.2.0.192.in-addr.arpa.
	Name(name string) error
	// Addresses removes the addresses that the machine must not see. The argument contains 1 to
	// MaxRecords addresses, either all IPv4 or all IPv6. If the result is empty, the server can
	// call Addresses again for the other family, to decide whether the answer is REFUSED.
	Addresses(name string, found []netip.Addr) (allowed []netip.Addr)
}

// Server answers the queries of one machine. It is safe for concurrent use.
type Server struct {
	Resolver Resolver
	Filter   Filter
	Hosts    map[string]netip.Addr // names on the link, in the form that Filter gets; answered without a lookup
	IPv6     bool                  // whether the machine has IPv6; if not, AAAA answers are empty
}

// Answer returns the reply to a query, or nil if the message is not a query.
//
// If stream is true (TCP, without the length prefix), a reply has at most 65535 bytes. Over UDP the
// limit is the size that the client advertises: 512 bytes by default, at most 1232. If a UDP reply
// is longer, it is sent without records and with the TC flag, so that the client retries over TCP.
// After 10 seconds, or when ctx is done, the reply is SERVFAIL.
//
// The supported types are A, AAAA, CNAME, MX, NS, PTR, SRV and TXT, in class IN. Answers for other
// types contain no records. Meta types (ANY, AXFR) return NOTIMP. If the filter refuses the name or
// all of its addresses, the reply is REFUSED.
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

// resolve returns the records for a question. RCodeSuccess without records means that the name has
// no records of this type.
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
	return s.otherRecords(ctx, name, q.Type)
}

// isMeta reports whether t is a meta type. Meta types occur in queries but never in records (RFC
// 6895, section 3.1).
func isMeta(t dnsmessage.Type) bool { return t == dnsmessage.TypeOPT || t >= 128 && t <= 255 }

// canonical returns the name in lower case without a trailing dot. ok is false if the name contains
// characters that are not allowed in the names of hosts and services.
func canonical(name string) (string, bool) {
	for _, c := range []byte(name) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.') {
			return "", false
		}
	}
	return strings.ToLower(strings.TrimSuffix(name, ".")), true
}
