package dns

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// addresses finds those of a type that may be told.
//
// Where there are none the name's other addresses matter, as some clients (musl) take what they are told of one type for both: a name does not exist when it
// has addresses of neither type, which Go's resolver can't tell from having none of one; and it is refused when all that it has are.
func (s *Server) addresses(ctx context.Context, name string, t dnsmessage.Type) ([]netip.Addr, dnsmessage.RCode) {
	found, err := s.lookup(ctx, name, t)
	if err != nil {
		return nil, dnsmessage.RCodeServerFailure
	}
	allowed := s.allowed(name, t, found)
	if len(allowed) > 0 {
		return allowed, dnsmessage.RCodeSuccess
	}
	if len(found) > 0 && !s.IPv6 {
		return nil, dnsmessage.RCodeRefused
	}
	other := dnsmessage.TypeA
	if t == dnsmessage.TypeA {
		other = dnsmessage.TypeAAAA
	}
	others, err := s.lookup(ctx, name, other)
	switch {
	case err != nil:
		return nil, dnsmessage.RCodeServerFailure
	case len(found) > 0 && len(s.allowed(name, other, others)) == 0:
		return nil, dnsmessage.RCodeRefused
	case len(found) == 0 && len(others) == 0:
		return nil, dnsmessage.RCodeNameError
	}
	return nil, dnsmessage.RCodeSuccess
}

// lookup finds the addresses of a type. There may be none.
func (s *Server) lookup(ctx context.Context, name string, t dnsmessage.Type) ([]netip.Addr, error) {
	network := "ip4"
	if t == dnsmessage.TypeAAAA {
		network = "ip6"
	}
	found, err := s.Resolver.LookupNetIP(ctx, network, name+".")
	if isMissing(err) {
		return nil, nil
	}
	found = ofType(t, found)
	return found[:min(len(found), MaxRecords)], err
}

// allowed asks the filter, if there is something to ask.
func (s *Server) allowed(name string, t dnsmessage.Type, found []netip.Addr) []netip.Addr {
	if len(found) == 0 {
		return nil
	}
	return ofType(t, s.Filter.Addresses(name, found))
}

// ofType picks the addresses of a type, without what else Go may put into them: IPv4 in IPv6, and zones.
func ofType(t dnsmessage.Type, all []netip.Addr) []netip.Addr {
	var of []netip.Addr
	for _, a := range all {
		a = a.Unmap().WithZone("")
		if t == dnsmessage.TypeA && a.Is4() || t == dnsmessage.TypeAAAA && a.Is6() {
			of = append(of, a)
		}
	}
	return of
}

func addressRecords(all []netip.Addr) []dnsmessage.ResourceBody {
	var out []dnsmessage.ResourceBody
	for _, a := range all {
		if a.Is4() {
			out = append(out, &dnsmessage.AResource{A: a.As4()})
		} else {
			out = append(out, &dnsmessage.AAAAResource{AAAA: a.As16()})
		}
	}
	return out
}

// others finds what is no address. Whether the name exists is not known where it has none of a type, so that it has no data.
func (s *Server) others(ctx context.Context, name string, t dnsmessage.Type) ([]dnsmessage.ResourceBody, dnsmessage.RCode) {
	rooted := name + "."
	switch t {
	case dnsmessage.TypeCNAME:
		found, err := s.Resolver.LookupCNAME(ctx, rooted)
		var aliases []string // one, or none: Go tells a name that is no alias as its own
		if err == nil && tellable(found) && !strings.EqualFold(dotted(found), rooted) {
			aliases = []string{found}
		}
		return records(aliases, err, func(alias string) (dnsmessage.ResourceBody, error) {
			target, err := dnsmessage.NewName(dotted(alias))
			return &dnsmessage.CNAMEResource{CNAME: target}, err
		})
	case dnsmessage.TypeTXT:
		found, err := s.Resolver.LookupTXT(ctx, rooted)
		return records(found, err, func(text string) (dnsmessage.ResourceBody, error) {
			return &dnsmessage.TXTResource{TXT: pieces(text)}, nil
		})
	case dnsmessage.TypeMX:
		found, err := s.Resolver.LookupMX(ctx, rooted)
		return records(found, err, func(mx *net.MX) (dnsmessage.ResourceBody, error) {
			host, err := dnsmessage.NewName(dotted(mx.Host))
			return &dnsmessage.MXResource{Pref: mx.Pref, MX: host}, err
		})
	case dnsmessage.TypeNS:
		found, err := s.Resolver.LookupNS(ctx, rooted)
		return records(found, err, func(ns *net.NS) (dnsmessage.ResourceBody, error) {
			host, err := dnsmessage.NewName(dotted(ns.Host))
			return &dnsmessage.NSResource{NS: host}, err
		})
	case dnsmessage.TypeSRV:
		_, found, err := s.Resolver.LookupSRV(ctx, "", "", rooted)
		return records(found, err, func(srv *net.SRV) (dnsmessage.ResourceBody, error) {
			target, err := dnsmessage.NewName(dotted(srv.Target))
			return &dnsmessage.SRVResource{Priority: srv.Priority, Weight: srv.Weight, Port: srv.Port, Target: target}, err
		})
	case dnsmessage.TypePTR:
		address, ok := reverse(name)
		if !ok {
			break
		}
		found, err := s.Resolver.LookupAddr(ctx, address.String())
		return records(found, err, func(name string) (dnsmessage.ResourceBody, error) {
			if !tellable(name) {
				return nil, errors.New("a name of the host's own")
			}
			host, err := dnsmessage.NewName(dotted(name))
			return &dnsmessage.PTRResource{PTR: host}, err
		})
	}
	return nil, dnsmessage.RCodeSuccess
}

// records makes them of what was found, but for what can be none. Go may find something and fail: others were malformed then, of which nothing is told.
func records[T any](found []T, failed error, body func(T) (dnsmessage.ResourceBody, error)) ([]dnsmessage.ResourceBody, dnsmessage.RCode) {
	var out []dnsmessage.ResourceBody
	for _, f := range found[:min(len(found), MaxRecords)] {
		if b, err := body(f); err == nil {
			out = append(out, b)
		}
	}
	if len(out) == 0 && failed != nil && !isMissing(failed) {
		return nil, dnsmessage.RCodeServerFailure
	}
	return out, dnsmessage.RCodeSuccess
}

// pieces cuts a text, which Go tells as one, into what a record has it in.
func pieces(text string) []string {
	cut := []string{}
	for len(text) > 255 {
		cut, text = append(cut, text[:255]), text[255:]
	}
	return append(cut, text)
}

// dotted ends a name that may do so in a dot.
func dotted(name string) string { return strings.TrimSuffix(name, ".") + "." }

// isMissing tells that there is nothing of what was looked up. An address error is Go's way to say so of a name that its host's files have for the other type.
func isMissing(err error) bool {
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return e.IsNotFound
	}
	_, ok := errors.AsType[*net.AddrError](err)
	return ok
}
