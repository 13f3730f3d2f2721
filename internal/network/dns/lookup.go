package dns

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// addresses returns the addresses of type t that the machine is allowed to see.
//
// If there are no such addresses, it looks up the other type too. Some clients (musl) apply a
// negative answer for one type to both types. The answer is NXDOMAIN if the name has no address of
// either type. Go's resolver can't distinguish this from a name that does not exist. The answer is
// REFUSED if the filter refuses all addresses of the name.
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

// lookup returns the addresses of a type, or nil if there are none.
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

// allowed filters the addresses. It does not call the filter if there are no addresses.
func (s *Server) allowed(name string, t dnsmessage.Type, found []netip.Addr) []netip.Addr {
	if len(found) == 0 {
		return nil
	}
	return ofType(t, s.Filter.Addresses(name, found))
}

// ofType returns the addresses of type t. Go's resolver can return IPv4-mapped addresses, and
// addresses with a zone. ofType unmaps the addresses and removes their zones.
func ofType(t dnsmessage.Type, all []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range all {
		a = a.Unmap().WithZone("")
		if t == dnsmessage.TypeA && a.Is4() || t == dnsmessage.TypeAAAA && a.Is6() {
			out = append(out, a)
		}
	}
	return out
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

// otherRecords looks up records that are not addresses. If the name has no records of type t, the
// answer is "no data", because Go's resolver does not report whether the name exists.
func (s *Server) otherRecords(ctx context.Context, name string, t dnsmessage.Type) ([]dnsmessage.ResourceBody, dnsmessage.RCode) {
	rooted := name + "."
	switch t {
	case dnsmessage.TypeCNAME:
		found, err := s.Resolver.LookupCNAME(ctx, rooted)
		var aliases []string // at most one alias: if the name is not an alias, Go returns the name itself
		if err == nil && isPublic(found) && !strings.EqualFold(fqdn(found), rooted) {
			aliases = []string{found}
		}
		return records(aliases, err, func(alias string) (dnsmessage.ResourceBody, error) {
			target, err := dnsmessage.NewName(fqdn(alias))
			return &dnsmessage.CNAMEResource{CNAME: target}, err
		})
	case dnsmessage.TypeTXT:
		found, err := s.Resolver.LookupTXT(ctx, rooted)
		return records(found, err, func(text string) (dnsmessage.ResourceBody, error) {
			return &dnsmessage.TXTResource{TXT: splitTXT(text)}, nil
		})
	case dnsmessage.TypeMX:
		found, err := s.Resolver.LookupMX(ctx, rooted)
		return records(found, err, func(mx *net.MX) (dnsmessage.ResourceBody, error) {
			host, err := dnsmessage.NewName(fqdn(mx.Host))
			return &dnsmessage.MXResource{Pref: mx.Pref, MX: host}, err
		})
	case dnsmessage.TypeNS:
		found, err := s.Resolver.LookupNS(ctx, rooted)
		return records(found, err, func(ns *net.NS) (dnsmessage.ResourceBody, error) {
			host, err := dnsmessage.NewName(fqdn(ns.Host))
			return &dnsmessage.NSResource{NS: host}, err
		})
	case dnsmessage.TypeSRV:
		_, found, err := s.Resolver.LookupSRV(ctx, "", "", rooted)
		return records(found, err, func(srv *net.SRV) (dnsmessage.ResourceBody, error) {
			target, err := dnsmessage.NewName(fqdn(srv.Target))
			return &dnsmessage.SRVResource{Priority: srv.Priority, Weight: srv.Weight, Port: srv.Port, Target: target}, err
		})
	case dnsmessage.TypePTR:
		address, ok := reverse(name)
		if !ok {
			break
		}
		found, err := s.Resolver.LookupAddr(ctx, address.String())
		return records(found, err, func(name string) (dnsmessage.ResourceBody, error) {
			if !isPublic(name) {
				return nil, errors.New("the name is local to the host")
			}
			host, err := dnsmessage.NewName(fqdn(name))
			return &dnsmessage.PTRResource{PTR: host}, err
		})
	}
	return nil, dnsmessage.RCodeSuccess
}

// records converts the results of a lookup and skips those that are not valid as records. If some
// records were malformed, Go's resolver returns an error together with the valid records. In this
// case the function records ignores the error.
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

// splitTXT splits a text into the strings of a TXT record, at most 255 bytes each. Go's resolver
// joins these strings.
func splitTXT(text string) []string {
	cut := []string{}
	for len(text) > 255 {
		cut, text = append(cut, text[:255]), text[255:]
	}
	return append(cut, text)
}

// fqdn makes a name end in exactly one dot.
func fqdn(name string) string { return strings.TrimSuffix(name, ".") + "." }

// isMissing reports whether a lookup found no records. Go returns an AddrError if the hosts file
// contains the name, but only with addresses of the other type.
func isMissing(err error) bool {
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return e.IsNotFound
	}
	_, ok := errors.AsType[*net.AddrError](err)
	return ok
}
