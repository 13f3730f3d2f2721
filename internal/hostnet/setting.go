package hostnet

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/pyro-mcp/pyro/internal/secret"
)

// source is a value together with the place where it was found.
type source struct{ value, from string }

// first returns the first source that has a value.
func first(all ...source) source {
	for _, s := range all {
		if s.value != "" {
			return s
		}
	}
	return source{}
}

// variable returns the value of the first variable that is set.
func (s *search) variable(names ...string) source {
	for _, name := range names {
		if value := s.Env(name); value != "" {
			return source{value, "$" + name}
		}
	}
	return source{}
}

// byURL returns a setting whose value contains URLs. The separators are the characters between the
// URLs. The credential's name is the first variable.
func (h Host) byURL(tool, name string, from source, separators string, variables ...string) Setting {
	s := Setting{Tool: tool, Name: name, Source: from.from, variables: variables}
	var plain strings.Builder
	rest, withPassword := from.value, false
	for rest != "" {
		end := strings.IndexAny(rest, separators)
		if end < 0 {
			end = len(rest)
		}
		one, hidden := h.url(&s, rest[:end])
		withPassword = withPassword || hidden
		plain.WriteString(one)
		if end < len(rest) {
			plain.WriteByte(rest[end])
			end++
		}
		rest = rest[end:]
	}
	s.Value = plain.String()
	if withPassword && s.Unusable == "" && len(variables) > 0 {
		s.Credential, s.secret = variables[0], secret.New(from.value)
	}
	return s
}

// url adds the egress rule of a URL to the setting. It returns the URL without user and password,
// and whether there were any. Words that are not URLs, such as direct, stay unchanged.
func (h Host) url(s *Setting, text string) (plain string, hidden bool) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		if strings.Contains(text, "@") { // possibly a password in a malformed URL
			s.Unusable = "it is not a valid URL"
			return secret.Hidden, false
		}
		return text, false
	}
	hidden = u.User != nil
	u.User = nil
	rule, unusable := ruleOf(u)
	if unusable == "" && h.Check != nil {
		if err := h.Check(rule); err != nil {
			unusable = err.Error()
		}
	}
	if unusable != "" {
		s.Unusable = unusable
	} else {
		s.Rules = append(s.Rules, rule)
	}
	return u.String(), hidden
}

// defaultPorts are the ports of URLs without a port.
var defaultPorts = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080", "socks": "1080", "socks4": "1080"}

// ruleOf returns the egress rule for the server of a URL, or the reason why a machine can't reach
// it.
func ruleOf(u *url.URL) (rule, unusable string) {
	host, port := strings.ToLower(u.Hostname()), cmp.Or(u.Port(), defaultPorts[u.Scheme])
	address, err := netip.ParseAddr(host)
	switch {
	case port == "":
		return "", "its scheme " + u.Scheme + " is not supported"
	case err == nil && (address.IsLoopback() || address.IsUnspecified()), host == "localhost", strings.HasSuffix(host, ".localhost"):
		return "", "it is on this host, which machines cannot reach"
	case err != nil && !strings.Contains(host, "."):
		return "", "machines cannot resolve " + host + ", because the name has no dot"
	}
	return net.JoinHostPort(host, port), ""
}

// byDefault returns the setting of a tool that is not configured.
func byDefault(tool, name, value string, rules ...string) Setting {
	return Setting{Tool: tool, Name: name, Value: value, Source: "default", Rules: rules}
}
