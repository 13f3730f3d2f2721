package cli

import (
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/serve"
)

// oidcFlags are the flags for logins at an OpenID provider.
type oidcFlags struct {
	issuer, clientID, secretFile string
	domains                      []string
}

func (o *oidcFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.issuer, "oidc-issuer", "", "let users log in at the OpenID provider at this `URL`")
	f.StringVar(&o.clientID, "oidc-client-id", "", "the `ID` that the provider has given to this server")
	f.StringVar(&o.secretFile, "oidc-client-secret-file", "", "the file with the secret that belongs to the ID, at this `PATH`")
	f.StringArrayVar(&o.domains, "oidc-allow-domain", nil, "users whose verified email has this `DOMAIN` need no invitation, and become members of the first team; repeatable")
}

// config returns the configuration of the provider, or nil if the flags name none.
func (o *oidcFlags) config() (*serve.OIDC, error) {
	if o.issuer == "" {
		if o.clientID != "" || o.secretFile != "" || len(o.domains) > 0 {
			return nil, fault.Newf(fault.Invalid, "the flags --oidc-… need --oidc-issuer")
		}
		return nil, nil
	}
	u, err := url.Parse(o.issuer)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !localName(u.Hostname())) {
		return nil, fault.Newf(fault.Invalid, "--oidc-issuer %q is not an https URL", fault.Printable(o.issuer)).WithHint("https://accounts.example.com")
	}
	if o.clientID == "" {
		return nil, fault.Newf(fault.Invalid, "--oidc-issuer needs --oidc-client-id").WithHint("register pyro at the provider")
	}
	for _, d := range o.domains {
		if !domainName().MatchString(strings.ToLower(d)) {
			return nil, fault.Newf(fault.Invalid, "--oidc-allow-domain %q is not a domain", fault.Printable(d)).WithHint("use a domain such as example.com")
		}
	}
	c := &serve.OIDC{Issuer: o.issuer, ClientID: o.clientID, Domains: o.domains}
	if o.secretFile != "" {
		text, err := os.ReadFile(o.secretFile)
		if err != nil {
			return nil, fault.Wrap(err, "read the secret of the OpenID client from", o.secretFile)
		}
		c.Secret = secret.New(strings.TrimSpace(string(text)))
	}
	return c, nil
}

// localName reports whether a name is this host.
func localName(name string) bool {
	return name == "localhost" || net.ParseIP(name).IsLoopback()
}
