package guest

import (
	"strings"
	"testing"
)

func TestHostsFileKeepsEntries(t *testing.T) {
	for name, c := range map[string]struct{ before, after string }{
		"none":              {"", "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 m-1\n"},
		"an image's":        {"127.0.0.1\tlocalhost\n10.0.0.9 db # ours\n", "127.0.0.1\tlocalhost\n10.0.0.9 db # ours\n127.0.1.1 m-1\n"},
		"another machine's": {"127.0.0.1 localhost\n127.0.1.1 template\n", "127.0.0.1 localhost\n127.0.1.1 m-1\n"},
		"its own":           {"127.0.0.1 localhost\n127.0.1.1 m-1\n", "127.0.0.1 localhost\n127.0.1.1 m-1\n"},
		"no last newline":   {"127.0.0.1 localhost", "127.0.0.1 localhost\n127.0.1.1 m-1\n"},
		"comments":          {"# localhost\n\n::1 localhost\n", "# localhost\n\n::1 localhost\n127.0.1.1 m-1\n"},
		"only a comment":    {"# localhost\n", "# localhost\n127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 m-1\n"},
	} {
		got := withName(c.before, "m-1")
		if got != c.after {
			t.Errorf("%s: got %q, want %q", name, got, c.after)
		}
		if again := withName(got, "m-1"); again != got {
			t.Errorf("%s: second run: got %q", name, again)
		}
	}
}

func FuzzHosts(f *testing.F) {
	f.Add("127.0.0.1 localhost\n127.0.1.1 template\n")
	f.Fuzz(func(t *testing.T, hosts string) {
		got := withName(hosts, "m-1")
		if strings.Count(got, ownAddress+" m-1\n") != 1 || !strings.HasSuffix(got, "\n") || withName(got, "m-1") != got {
			t.Errorf("%q became %q", hosts, got)
		}
	})
}
