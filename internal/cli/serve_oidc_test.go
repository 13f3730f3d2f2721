package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
)

func TestOIDCFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("hidden\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := (&oidcFlags{}).config(); c != nil || err != nil {
		t.Errorf("%+v, %v", c, err)
	}
	c, err := (&oidcFlags{issuer: "https://id.example", clientID: "pyro", secretFile: file, domains: []string{"example.com"}}).config()
	if err != nil || c.Secret.Reveal() != "hidden" || c.Domains[0] != "example.com" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := (&oidcFlags{issuer: "http://localhost:9000", clientID: "pyro"}).config(); err != nil {
		t.Error(err)
	}
	for name, o := range map[string]oidcFlags{
		"no issuer": {clientID: "pyro"}, "no client": {issuer: "https://id.example"}, "no TLS": {issuer: "http://id.example", clientID: "pyro"},
		"no URL": {issuer: "id.example", clientID: "pyro"}, "no domain": {issuer: "https://id.example", clientID: "pyro", domains: []string{"*"}},
	} {
		if _, err := o.config(); fault.KindOf(err) != fault.Invalid || fault.HintOf(err) == "" && name != "no issuer" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (&oidcFlags{issuer: "https://id.example", clientID: "pyro", secretFile: file + "x"}).config(); fault.KindOf(err) != fault.NotFound {
		t.Errorf("no file: %v", err)
	}
}
