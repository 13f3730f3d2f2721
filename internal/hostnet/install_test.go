package hostnet

import (
	"context"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"software.sslmate.com/src/go-pkcs12"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
)

// memory is a file system in memory.
type memory map[string]string

func (m memory) ReadFile(_ context.Context, path string, _, limit int64, to io.Writer) (int64, error) {
	content, ok := m[path]
	if !ok {
		return 0, fault.New(fault.NotFound, "read", path, "no such file")
	}
	n, err := io.WriteString(to, content[:min(len(content), int(limit))])
	return int64(n), err
}

func (m memory) WriteFile(_ context.Context, path, content string) error {
	m[path] = content
	return nil
}

func (m memory) List(_ context.Context, folder string) (names []string, err error) {
	for name := range m {
		if path.Dir(name) == folder {
			names = append(names, path.Base(name))
		}
	}
	if names == nil {
		return nil, fault.New(fault.NotFound, "list", folder, "no such folder")
	}
	return names, nil
}

func TestInstall(t *testing.T) {
	public, own := authority(t, "Public"), authority(t, "Own")
	settings := &store.HostNetwork{
		Certificates: own, NPM: "registry=https://npm.example/\n", APT: "Acquire::http::Proxy \"http://p.example:1\";\n",
		Mirrors: map[string]string{"debian": "http://mirror.example/debian"},
	}
	for name, m := range map[string]memory{
		"debian": {
			bundlePath: public, "/etc/apt/sources.list": "# none\n",
			"/etc/apt/sources.list.d/debian.sources": "URIs: http://deb.debian.org/debian/\nURIs: http://deb.debian.org/debian\nURIs: http://deb.debian.org/debian-security\n",
		},
		"empty": {},
	} {
		bundle := func() string { return public }
		if err := Install(t.Context(), m, settings, bundle); err != nil {
			t.Fatal(err)
		}
		if got := m[bundlePath]; got != public+own {
			t.Errorf("%s: the bundle is\n%s", name, got)
		}
		all, err := pkcs12.DecodeTrustStore([]byte(m[javaPath]), javaPassword)
		if err != nil || len(all) != 2 {
			t.Errorf("%s: Java trusts %d certificates: %v", name, len(all), err)
		}
		if m[npmPath] != settings.NPM || m[aptPath] != settings.APT || m[anchorPath] != own {
			t.Errorf("%s: %q", name, slices.Collect(maps.Keys(m)))
		}
		if got := m["/etc/apt/sources.list.d/debian.sources"]; name == "debian" && strings.ReplaceAll(got, "mirror.example/debian/", "mirror.example/debian") !=
			"URIs: http://mirror.example/debian\nURIs: http://mirror.example/debian\nURIs: http://deb.debian.org/debian-security\n" {
			t.Errorf("%s", got)
		}
		before := maps.Clone(m)
		if err := Install(t.Context(), m, settings, bundle); err != nil || !maps.Equal(before, m) {
			t.Errorf("%s: the second call changed the files: %v", name, err)
		}
	}
}

// TestInstallNothing checks that defaults write no file.
func TestInstallNothing(t *testing.T) {
	m := memory{}
	if err := Install(t.Context(), m, &store.HostNetwork{Rules: []string{"pypi.org:443"}}, nil); err != nil || len(m) > 0 {
		t.Errorf("%v, %q", err, m)
	}
}
