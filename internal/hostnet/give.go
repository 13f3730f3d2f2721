package hostnet

import (
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/store"
)

// Give returns the settings for a machine, with the named credentials. If a named credential was
// not found, Give returns a NotFound error.
func (s Settings) Give(credentials []string) (*store.HostNetwork, Credentials, error) {
	g := &store.HostNetwork{Mirrors: s.mirrors}
	var secrets Credentials
	for _, f := range s.All {
		if f.Unusable != "" {
			continue
		}
		for _, rule := range f.Rules {
			if !slices.Contains(g.Rules, rule) {
				g.Rules = append(g.Rules, rule)
			}
		}
		named := f.Credential != "" && slices.Contains(credentials, f.Credential)
		for _, name := range f.variables {
			if named {
				secrets = append(secrets, secret.Secret{Name: name, Source: secret.Literal, Value: f.secret})
			} else {
				g.Env = append(g.Env, name+"="+f.Value)
			}
		}
		if named && len(f.variables) == 0 {
			secrets = append(secrets, secret.Secret{Name: f.Credential, Source: secret.Literal, Value: f.secret})
		}
	}
	for _, name := range credentials {
		if !slices.ContainsFunc(s.All, func(f Setting) bool { return f.Credential == name && f.Unusable == "" }) {
			return nil, nil, fault.New(fault.NotFound, "give credential", name, "no setting of this host contains it").WithHint("pyro host network-settings")
		}
	}
	var bundle strings.Builder
	for _, c := range s.certificates {
		bundle.WriteString(c.text())
	}
	if g.Certificates = bundle.String(); g.Certificates != "" {
		g.Env = append(g.Env, trustEnv()...)
	}
	npm := slices.Clone(s.npm)
	for _, f := range s.All {
		if f.Tool == "npm" && f.Credential != "" && slices.Contains(credentials, f.Credential) {
			npm = append(npm, f.Name+"=${"+f.Credential+"}")
		}
	}
	if g.NPM, g.APT = lines(npm), lines(s.apt); g.NPM != "" {
		g.Env = append(g.Env, "NPM_CONFIG_GLOBALCONFIG="+npmPath)
	}
	return g, secrets, nil
}

// lines joins lines, each with a newline at its end.
func lines(all []string) string {
	var b strings.Builder
	for _, line := range all {
		b.WriteString(line + "\n")
	}
	return b.String()
}

// trustEnv returns the variables that make programs use the system's CA certificates. Node, Python
// and Java ignore them otherwise.
func trustEnv() []string {
	env := []string{"JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=" + javaPath + " -Djavax.net.ssl.trustStorePassword=" + javaPassword}
	for _, name := range trustVariables {
		env = append(env, name+"="+bundlePath)
	}
	return env
}
