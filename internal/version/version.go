// Package version contains the version of this build.
package version

import (
	"cmp"
	_ "embed"
	"runtime/debug"
	"strings"
)

// number is the released version, or the next version with the suffix -dev. It is defined only in
// the file VERSION.
//
//go:embed VERSION
var number string

// commit is set by the build with this option:
// -ldflags "-X github.com/pyro-mcp/pyro/internal/version.commit=0123abc"
var commit string

// String returns the version in SemVer format. A release has the version 1.2.3. A build before that
// release has the version 1.2.3-dev+COMMIT.
func String() string {
	v := strings.TrimSpace(number)
	if from := cmp.Or(commit, revision()); from != "" && strings.Contains(v, "-") {
		v += "+" + from
	}
	return v
}

// revision returns the first 12 characters of the revision that the Go command recorded, or the
// empty string if there is none.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || !strings.HasPrefix(info.Path, "github.com/pyro-mcp/pyro/") { // imported by another program
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return s.Value[:12]
		}
	}
	return ""
}
