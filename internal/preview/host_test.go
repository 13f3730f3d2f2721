package preview

import (
	"strings"
	"testing"
)

var domains = []string{"example.com", "pyro.example.org"}

func TestParseHost(t *testing.T) {
	const id = "cl-0123456789abcdefghijklmno"
	for host, want := range map[string]Port{
		"8000-" + id + ".localhost":                    {id, 8000, "localhost"},
		"8000-" + id + ".localhost:8080":               {id, 8000, "localhost"},
		"65535-" + id + ".example.com":                 {id, 65535, "example.com"},
		"1-CL-X.PYRO.Example.ORG:443":                  {"cl-x", 1, "pyro.example.org"},
		"80-" + strings.Repeat("a", 60) + ".localhost": {strings.Repeat("a", 60), 80, "localhost"},
	} {
		if got, ok := ParseHost(host, domains); !ok || got != want {
			t.Errorf("%s: %+v, %v", host, got, ok)
		}
	}
	for _, host := range []string{
		"", "localhost", "example.com", "127.0.0.1:8080", "[::1]:80", "8000.localhost", "8000-.localhost", "-cl-x.localhost", "cl-x.localhost", "0-cl-x.localhost",
		"65536-cl-x.localhost", "080-cl-x.localhost", "+80-cl-x.localhost", "80-cl-x.evil.com", "80-cl-x.evil.example.com", "80-cl-x.localhost.", "80-cl-x..localhost",
		"80-cl-x.localhost.evil.com", "80-cl_x.localhost", "80-cl-x-.localhost", "80--x.localhost", "80-cl-x.localhost:0", "80-cl-x.localhost:x", "80-cl-x.localhost:80:80",
		"80-" + strings.Repeat("a", 61) + ".localhost", "80-cl-x.example.com@evil.com", "80-cl-x.localhost/evil", "80-é.localhost",
	} {
		if got, ok := ParseHost(host, domains); ok {
			t.Errorf("%q: %+v", host, got)
		}
	}
}

// FuzzParseHost checks that each port has exactly one valid host name.
func FuzzParseHost(f *testing.F) {
	for _, seed := range []string{"8000-cl-x.localhost:8080", "80-cl-x.example.com", "[::1]:80", "80-a.localhost."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, host string) {
		p, ok := ParseHost(host, domains)
		if !ok {
			return
		}
		name, _, _ := strings.Cut(host, ":")
		if !strings.EqualFold(p.Host(), name) {
			t.Errorf("%q is %+v", host, p)
		}
		if again, ok := ParseHost(p.Host(), domains); !ok || again != p {
			t.Errorf("%q is %+v, and then %+v", host, p, again)
		}
		if p.Number < 1 || p.Number > 65535 || len(p.Host()) > 253 || strings.ContainsAny(p.Host(), "/@:?# \r\n") {
			t.Errorf("%q is %+v", host, p)
		}
	})
}
