package version

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// semVer is the regular expression that semver.org suggests.
var semVer = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$`)

func TestVersionIsSemVer(t *testing.T) {
	defer func(was string) { commit = was }(commit)
	for _, c := range []string{"", "e7b57d9", "e7b57d9-dirty"} {
		commit = c
		if v := String(); !semVer.MatchString(v) || !strings.HasSuffix(v, c) {
			t.Errorf("%q", v)
		}
	}
}

// TestPythonVersion checks that the Python package has the same version.
func TestPythonVersion(t *testing.T) {
	text, err := os.ReadFile("../../sdk/python/pyproject.toml")
	if err != nil {
		t.Fatal(err)
	}
	release, _, _ := strings.Cut(strings.TrimSpace(number), "-")
	if !strings.Contains(string(text), "\nversion = \""+release+"\"\n") {
		t.Errorf("sdk/python/pyproject.toml has not the version %s", release)
	}
}
