// Package hostnet finds the network settings of this host for use in a machine: proxies, CA
// certificates, and the mirrors of apt, Go, npm and pip.
//
// [Find] reads variables and configuration files of the calling user. It runs no program.
// [Settings.Give] selects the settings for a machine. A password or token inside a setting is left
// out, unless the caller names it. [Install] writes the files of a machine.
package hostnet

import "github.com/pyro-mcp/pyro/internal/secret"

// Setting is one setting of the host.
type Setting struct {
	Tool   string   `json:"tool"`             // proxy, certificates, apt, go, npm or pip.
	Name   string   `json:"name"`             // such as HTTPS_PROXY or registry.
	Value  string   `json:"value"`            // without passwords and tokens.
	Source string   `json:"source"`           // the variable or file that contains it, or "default".
	Rules  []string `json:"egress,omitempty"` // the egress rules that its use needs

	// Credential is the name under which the caller can ask for the password or token. It is empty
	// if the setting contains none.
	Credential string `json:"credential,omitempty"`
	// Unusable is the reason why a machine can't use the setting. If it is set, machines do not get
	// the setting.
	Unusable string `json:"unusable,omitempty"`

	variables []string     // environment variables that get the value in a machine
	secret    secret.Value // the value with its password, or the token
}

// Settings contains all settings that Find has found.
type Settings struct {
	All []Setting

	certificates []certificate
	mirrors      map[string]string // mirrors by the name of the archive, such as debian
	npm          []string          // lines of npm's configuration
	apt          []string          // lines of apt's configuration
}

// Credentials are the passwords and tokens that the caller has selected by name. Each is set as the
// environment variable of its name.
type Credentials []secret.Secret

// Env returns the values as NAME=VALUE.
func (c Credentials) Env() (env []string) {
	for _, s := range c {
		env = append(env, s.Name+"="+s.Value.Reveal())
	}
	return env
}

// MaxCertificates is the maximum size of the host's own CA certificates, in bytes of PEM.
const MaxCertificates = 256 << 10
