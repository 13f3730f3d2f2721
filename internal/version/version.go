// Package version is the version of this build, the same for all programs of pyro.
package version

import (
	"cmp"
	_ "embed"
	"runtime/debug"
	"strings"
)

// number is the version that is released, or with -dev worked on. It stands nowhere else.
//
//go:embed VERSION
var number string

// commit is set by the build: -ldflags "-X github.com/pyro-mcp/pyro/internal/version.commit=0123abc".
var commit string

// String gives the version by the rules of SemVer: 1.2.3 for a release, 1.2.3-dev+COMMIT for what
// comes before it.
func String() string {
	v := strings.TrimSpace(number)
	if from := cmp.Or(commit, revision()); from != "" && strings.Contains(v, "-") {
		v += "+" + from
	}
	return v
}

// revision is what the Go command noted, if it did.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || !strings.HasPrefix(info.Path, "github.com/pyro-mcp/pyro/") { // it is another program's
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return s.Value[:12]
		}
	}
	return ""
}
