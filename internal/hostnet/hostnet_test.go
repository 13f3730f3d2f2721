package hostnet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// authority returns a new CA certificate as PEM.
func authority(t *testing.T, name string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// host returns a host with files and variables.
func host(t *testing.T, files, env map[string]string) Host {
	t.Helper()
	root := t.TempDir()
	for path, content := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Host{Root: root, Home: "/home/u", Env: func(name string) string { return env[name] }}
}

// text returns the settings of a tool, one per line.
func text(s Settings, tool string) string {
	var b strings.Builder
	for _, f := range s.All {
		if f.Tool == tool {
			b.WriteString(strings.Join(slices.Concat([]string{f.Name, f.Value, f.Source}, f.Rules, []string{f.Credential, f.Unusable}), " ") + "\n")
		}
	}
	return b.String()
}

func TestDefaults(t *testing.T) {
	s := Find(host(t, nil, nil))
	g, secrets, err := s.Give(nil)
	if err != nil || len(secrets) > 0 || len(g.Env) > 0 || g.Certificates != "" || g.NPM != "" {
		t.Errorf("%+v, %v, %v", g, secrets, err)
	}
	for _, rule := range []string{"deb.debian.org:80", "proxy.golang.org:443", "sum.golang.org:443", "registry.npmjs.org:443", "pypi.org:443", "files.pythonhosted.org:443"} {
		if !slices.Contains(g.Rules, rule) {
			t.Errorf("no rule for %s: %q", rule, g.Rules)
		}
	}
}

func TestFind(t *testing.T) {
	own, env, public := authority(t, "Own CA"), authority(t, "CA of a variable"), authority(t, "Public CA")
	s := Find(host(t, map[string]string{
		"/usr/local/share/ca-certificates/own.crt": own + "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
		"/etc/ssl/certs/ca-certificates.crt":       public + own,
		"/srv/more.pem":                            public + env + own,
		"/etc/apt/sources.list":                    "deb http://mirror.corp.example/debian bookworm main\ndeb https://u:p@mirror.corp.example/debian-security bookworm-security main\ndeb http://localhost/ubuntu noble main\n",
		"/etc/apt/apt.conf.d/90proxy":              "// comment\nAcquire::http::Proxy \"http://proxy.corp.example:8080/\";\n",
		"/home/u/.npmrc":                           "; comment\nregistry = https://npm.corp.example/all/\n@corp:registry=https://npm.corp.example:8443/corp/\n//npm.corp.example/all/:_authToken=npm-secret\n",
		"/home/u/.config/pip/pip.conf":             "[global]\nindex-url = https://joe:pip-secret@pypi.corp.example/simple\nextra-index-url =\n    https://one.example/simple\n    https://two.example/simple\n[install]\ntrusted-host = pypi.corp.example\n",
		"/home/u/.config/go/env":                   "GOPROXY=https://go.corp.example|direct\nGOPRIVATE=corp.example/*\n",
	}, map[string]string{
		"https_proxy": "http://joe:proxy-secret@proxy.corp.example:3128", "HTTP_PROXY": "127.0.0.1:3128", "NO_PROXY": "corp.example", "GOSUMDB": "off",
		"NODE_EXTRA_CA_CERTS": "/srv/more.pem", "SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt",
	}))
	for tool, want := range map[string]string{
		"proxy": "HTTP_PROXY http://127.0.0.1:3128 $HTTP_PROXY  it is on this host, which machines cannot reach\n" +
			"HTTPS_PROXY http://proxy.corp.example:3128 $https_proxy proxy.corp.example:3128 HTTPS_PROXY \nNO_PROXY corp.example $NO_PROXY  \n",
		"certificates": "CA Own CA /usr/local/share/ca-certificates/own.crt  \nCA CA of a variable /srv/more.pem  \n",
		"apt": "debian http://mirror.corp.example/debian apt mirror.corp.example:80  \n" +
			"debian-security https://mirror.corp.example/debian-security apt mirror.corp.example:443  it needs a password\n" +
			"ubuntu http://localhost/ubuntu apt  it is on this host, which machines cannot reach\n" +
			"Acquire::http::Proxy http://proxy.corp.example:8080/ /etc/apt/apt.conf.d/90proxy proxy.corp.example:8080  \n",
		"go": "GOPROXY https://go.corp.example|direct /home/u/.config/go/env go.corp.example:443  \nGOSUMDB off $GOSUMDB  \nGOPRIVATE corp.example/* /home/u/.config/go/env  \n",
		"npm": "@corp:registry https://npm.corp.example:8443/corp/ /home/u/.npmrc npm.corp.example:8443  \n" +
			"registry https://npm.corp.example/all/ /home/u/.npmrc npm.corp.example:443  \n//npm.corp.example/all/:_authToken [REDACTED] /home/u/.npmrc NPM_TOKEN \n",
		"pip": "index-url https://pypi.corp.example/simple /home/u/.config/pip/pip.conf pypi.corp.example:443 PIP_INDEX_URL \n" +
			"extra-index-url https://one.example/simple https://two.example/simple /home/u/.config/pip/pip.conf one.example:443 two.example:443  \n" +
			"trusted-host pypi.corp.example /home/u/.config/pip/pip.conf  \n",
	} {
		if got := text(s, tool); got != want {
			t.Errorf("%s:\n%swant\n%s", tool, got, want)
		}
	}

	g, secrets, err := s.Give(nil)
	if err != nil || len(secrets) > 0 {
		t.Fatal(secrets, err)
	}
	given := strings.Join(g.Env, "\n") + g.NPM + g.APT + g.Certificates
	if strings.Contains(given, "-secret") || strings.Contains(given, "PRIVATE KEY") {
		t.Errorf("a credential is given: %s", given)
	}
	for _, want := range []string{"HTTPS_PROXY=http://proxy.corp.example:3128", "https_proxy=http://proxy.corp.example:3128", "PIP_INDEX_URL=https://pypi.corp.example/simple",
		"GOPROXY=https://go.corp.example|direct", "NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt"} {
		if !slices.Contains(g.Env, want) {
			t.Errorf("%q is not in %q", want, g.Env)
		}
	}
	if slices.ContainsFunc(g.Env, func(v string) bool { return strings.Contains(v, "127.0.0.1") }) {
		t.Errorf("a machine gets a proxy that it can't reach: %q", g.Env)
	}
	if g.Mirrors["debian"] != "http://mirror.corp.example/debian" || len(g.Mirrors) != 1 || strings.Count(g.Certificates, "BEGIN CERTIFICATE") != 2 {
		t.Errorf("%+v", g)
	}

	g, secrets, err = s.Give([]string{"HTTPS_PROXY", "NPM_TOKEN"})
	if err != nil {
		t.Fatal(err)
	}
	if env := secrets.Env(); !slices.Equal(env, []string{"HTTPS_PROXY=http://joe:proxy-secret@proxy.corp.example:3128", "https_proxy=http://joe:proxy-secret@proxy.corp.example:3128", "NPM_TOKEN=npm-secret"}) {
		t.Errorf("%q", env)
	}
	if !strings.Contains(g.NPM, "//npm.corp.example/all/:_authToken=${NPM_TOKEN}\n") || strings.Contains(strings.Join(g.Env, " "), "HTTPS_PROXY=") {
		t.Errorf("%q, %q", g.NPM, g.Env)
	}
	if _, _, err := s.Give([]string{"GITHUB_TOKEN"}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("an unknown credential: %v", err)
	}
}

func TestUnusable(t *testing.T) {
	for value, want := range map[string]string{
		"http://proxy:3128": "no dot", "http://localhost:3128": "on this host", "http://[::1]:3128": "on this host", "ftp://proxy.example": "scheme",
		"http://u:p@[x": "not a valid URL", "http://bad.example:1": "refused by the check",
	} {
		h := host(t, nil, map[string]string{"HTTPS_PROXY": value})
		h.Check = func(rule string) error {
			if rule == "bad.example:1" {
				return fault.Newf(fault.Invalid, "refused by the check")
			}
			return nil
		}
		s := Find(h).All[0]
		if !strings.Contains(s.Unusable, want) || s.Credential != "" || strings.Contains(s.Value, "u:p") {
			t.Errorf("%s: %+v", value, s)
		}
	}
}

func FuzzFiles(f *testing.F) {
	f.Add("registry=https://u:p@a.b/\n//a.b/:_authToken=x\n[global]\nindex-url = http://c.d\n e\n", "deb http://deb.debian.org/debian bookworm main\n")
	f.Fuzz(func(t *testing.T, ini, sources string) {
		for _, e := range entries(ini) {
			if strings.ContainsAny(e.name+e.value, "\n") {
				t.Errorf("a line end in %+v", e)
			}
		}
		aptValue(ini, "Acquire::http::Proxy")
		parse(ini)
		if got := rewrite(sources, map[string]string{"debian": "http://deb.debian.org/debian"}); len(got) > len(sources)+len(sources) {
			t.Errorf("%q became %q", sources, got)
		}
	})
}
