package environment

import (
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
)

func TestResolve(t *testing.T) {
	for name, want := range map[string]string{
		"debian:12":                   "debian:12",
		"debian:12-build":             "debian:12-build",
		"alpine:3.20":                 "index.docker.io/library/alpine:3.20",
		"alpine":                      "index.docker.io/library/alpine:latest",
		"docker.io/library/debian:13": "index.docker.io/library/debian:13",
		"localhost:5000/debian:13":    "localhost:5000/debian:13",
		"ghcr.io/x/y@sha256:" + strings.Repeat("a", 64): "ghcr.io/x/y@sha256:" + strings.Repeat("a", 64),
		"debian":          "near debian:12",
		"debian:13":       "near debian:12",
		"debian:12-biuld": "near debian:12-build",
		"debain:12":       "near debian:12",
		"Debian:12":       "near debian:12",
		"debian:":         "near debian:12",
		"":                "invalid",
		"a b":             "invalid",
		"../../etc":       "invalid",
	} {
		env, err := resolve(name)
		near, isNear := strings.CutPrefix(want, "near ")
		switch {
		case isNear:
			if fault.KindOf(err) != fault.NotFound || fault.HintOf(err) != "pyro env list" || !strings.Contains(err.Error(), "did you mean "+near) {
				t.Errorf("%q: %v", name, err)
			}
		case want == "invalid":
			if fault.KindOf(err) != fault.Invalid {
				t.Errorf("%q: %v", name, err)
			}
		case err != nil || env.Name != want:
			t.Errorf("%q: got %q, %v", name, env.Name, err)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"debain", "debian", 1}, {"dbian", "debian", 1}, {"debiann", "debian", 1}, {"alpine", "debian", 5}, {"ab", "ba", 1}} {
		if got := distance(c.a, c.b); got != c.want || distance(c.b, c.a) != got {
			t.Errorf("%q to %q: %d and back %d, want %d", c.a, c.b, got, distance(c.b, c.a), c.want)
		}
	}
}

func TestFileNamesAreDistinctAndStayInTheFolder(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"debian:12", "a/b", "a%2Fb", "..", ".", "host:1/x@sha256:y", strings.Repeat("x", 300), strings.Repeat("x", 301), "../../x", "a\x00b"} {
		file := fileName(name)
		if other, taken := seen[file]; taken {
			t.Errorf("%q and %q are both %q", name, other, file)
		}
		seen[file] = name
		if strings.ContainsAny(file, "/\x00") || len(file) > 200 || file == "" {
			t.Errorf("%q is %q", name, file)
		}
	}
}
