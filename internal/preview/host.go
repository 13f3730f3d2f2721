// Package preview shows the web servers of sandboxes to browsers.
//
// Each port of a sandbox has its own host name, {port}-{id}.localhost or {port}-{id}.DOMAIN. So
// browsers isolate it from the page of pyro and from other ports. A [Handler] checks the sender of
// a request, and forwards it over a connection of the control plane. The sandbox is hostile: it
// gets no cookie, key or token of pyro, and can't set cookies or policies for other hosts.
package preview

import (
	"net"
	"slices"
	"strconv"
	"strings"
)

// Port is a port of a sandbox, with the domain under which a client has named it.
type Port struct {
	ID     string // of the sandbox
	Number int
	Domain string
}

// Local is the domain that always resolves to the client's own host.
const Local = "localhost"

// maxLabel is the maximum length of a label of a host name.
const maxLabel = 63

// ParseHost returns the port in a Host header. ok is false if the header is not the host of a
// preview in one of the domains. The domains must be in lower case.
func ParseHost(host string, domains []string) (p Port, ok bool) {
	name := host
	if h, port, err := net.SplitHostPort(host); err == nil {
		if _, ok := parsePort(port); !ok {
			return Port{}, false
		}
		name = h
	}
	if len(name) > 253 {
		return Port{}, false
	}
	label, domain, ok := strings.Cut(strings.ToLower(name), ".")
	if !ok || len(label) > maxLabel || domain != Local && !slices.Contains(domains, domain) {
		return Port{}, false
	}
	number, id, ok := strings.Cut(label, "-")
	if !ok || !isID(id) {
		return Port{}, false
	}
	p = Port{ID: id, Domain: domain}
	p.Number, ok = parsePort(number)
	return p, ok
}

// parsePort parses a port in its only form: without a sign or leading zeros.
func parsePort(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	return int(n), err == nil && n > 0 && text == strconv.FormatUint(n, 10)
}

func isID(id string) bool {
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return id != "" && id[0] != '-' && id[len(id)-1] != '-'
}

// Host returns the host name of a preview, without a TCP port of the server.
func (p Port) Host() string { return strconv.Itoa(p.Number) + "-" + p.ID + "." + p.Domain }

// at returns a name with the TCP port of another host.
func at(name, host string) string {
	if _, port, err := net.SplitHostPort(host); err == nil {
		return net.JoinHostPort(name, port)
	}
	return name
}
