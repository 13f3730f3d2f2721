package debian

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const mirror = "https://mirror.example/debian"

func TestSources(t *testing.T) {
	own := "/usr/share/keyrings/debian-archive-bookworm.gpg"
	for name, c := range map[string]struct {
		files map[string]string
		want  []Source
	}{
		"no sources": {nil, defaultSources},
		"one-line": {map[string]string{"sources.list": `
# deb http://commented.example/debian bookworm main
deb  [ arch=amd64 signed-by=` + own + ` ]  ` + mirror + ` bookworm main contrib # and more
deb-src ` + mirror + ` bookworm main
deb ` + mirror + ` bookworm-updates main
deb http://security.debian.org bookworm-security main
deb ` + mirror + ` bookworm-backports main
deb ` + mirror + ` trixie main
deb ` + mirror + ` bookworm contrib
`}, []Source{{mirror, "bookworm", own}, {mirror, "bookworm-updates", keyring}, {"http://security.debian.org", "bookworm-security", keyring}}},
		"deb822": {map[string]string{"sources.list.d/debian.sources": `
Types: deb deb-src
# where
URIs: ` + mirror + `
Suites: bookworm
 bookworm-updates
Components: main non-free-firmware
Signed-By: ` + own + `

Types: deb
URIs: ` + mirror + `-security
Suites: bookworm-security
Components: main
Enabled: no`}, []Source{{mirror, "bookworm", own}, {mirror, "bookworm-updates", own}}},
		"cloud images": {map[string]string{"sources.list.d/debian.sources": "Types: deb\nURIs: mirror+file:///etc/apt/mirrors/debian.list\nSuites: bookworm\nComponents: main\n"},
			[]Source{{"mirror+file:///etc/apt/mirrors/debian.list", "bookworm", keyring}}},
		"third parties": {map[string]string{
			"sources.list":                     "deb " + mirror + " bookworm main\n",
			"sources.list.d/tool.list":         "deb https://deb.tool.example/node_20.x bookworm main\ndeb [signed-by=/etc/apt/keyrings/tool.gpg] https://tool.example/linux/debian bookworm main\n",
			"sources.list.d/off.list.disabled": "deb http://off.example/debian bookworm main\n",
		}, []Source{{mirror, "bookworm", keyring}}},
		"another distribution": {map[string]string{"sources.list": "deb http://archive.ubuntu.com/ubuntu noble main\n"}, defaultSources},
		"security alone":       {map[string]string{"sources.list": "deb http://security.debian.org/debian-security bookworm-security main\n"}, defaultSources},
		"an inline key":        {map[string]string{"sources.list.d/x.sources": "Types: deb\nURIs: " + mirror + "\nSuites: bookworm\nComponents: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n"}, defaultSources},
		"files and discs":      {map[string]string{"sources.list": "deb cdrom:[Debian]/ bookworm main\ndeb file:///srv/debian bookworm main\n"}, defaultSources},
	} {
		root := t.TempDir()
		for file, text := range c.files {
			path := filepath.Join(root, "etc/apt", file)
			os.MkdirAll(filepath.Dir(path), 0o755)
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(c.want, Sources(root)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestGuestSourcesHideHost(t *testing.T) {
	got := GuestSources([]Source{
		{mirror, "bookworm", "/etc/own.gpg"}, {"http://user:secret@mirror.example/debian", "bookworm", keyring}, {"mirror+file:/etc/m/debian.list", "bookworm-updates", keyring},
		{"http://localhost:3142/debian", "bookworm", keyring}, {"http://127.0.0.1/debian-security", "bookworm-security", keyring},
	})
	want := []Source{{mirror, "bookworm", keyring}, defaultSources[0], defaultSources[1], defaultSources[0], defaultSources[2]}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func FuzzSources(f *testing.F) {
	f.Add("deb [signed-by=/x] http://a/debian bookworm main")
	f.Add("Types: deb\nURIs: http://a/debian\nSuites: bookworm\n x\nComponents: main\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range append(parseList(text), parseDeb822(text)...) {
			if ofDebian(s) && strings.Count(Source{s.URI, s.Suite, keyring}.Line(), "\n") != 1 {
				t.Errorf("not one line: %q", s)
			}
		}
	})
}
