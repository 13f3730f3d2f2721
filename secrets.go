package pyro

import (
	"io"
	"maps"
	"os"
	"slices"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/store"
)

// SecretValue is a text that is redacted when it is printed, logged or encoded as JSON. A
// SecretValue can be decoded from JSON.
type SecretValue = secret.Value

// NewSecretValue returns text as a SecretValue.
func NewSecretValue(text string) SecretValue { return secret.New(text) }

// Secret is a text that a workspace's programs get in environment variables. pyro never shows the
// text. Set either Value or FilePath. The text must be UTF-8 without NUL and have at most
// MaxSecretBytes bytes.
type Secret struct {
	Name     string      `json:"name"`                // letters, digits and underscores
	Value    SecretValue `json:"value,omitzero"`      // the text.
	FilePath string      `json:"file_path,omitempty"` // instead of Value: a file on the host that contains the text.
}

// Limits for secrets.
const (
	MaxSecretBytes = secret.MaxBytes // size of one secret in bytes
	MaxSecrets     = secret.MaxCount // number of secrets of one workspace
)

// SecretInfo describes a secret without its value.
type SecretInfo struct {
	Name       string `json:"name"`
	SourceKind string `json:"source_kind"` // literal, or file
}

// secretsOf reads the values of secrets.
func secretsOf(all []Secret) ([]secret.Secret, error) {
	var read []secret.Secret
	for _, s := range all {
		one := secret.Secret{Name: s.Name, Source: secret.Literal, Value: s.Value}
		switch {
		case s.FilePath != "" && !s.Value.IsZero():
			return nil, invalid("secret %s has both a value and a file", s.Name)
		case s.FilePath != "":
			text, err := readSecret(s.FilePath)
			if err != nil {
				return nil, fault.Wrap(err, "read secret "+s.Name+" from", s.FilePath)
			}
			one.Source, one.Value = secret.File, text
		}
		if err := one.Check(); err != nil {
			return nil, err
		}
		read = append(read, one)
	}
	return read, nil
}

func readSecret(path string) (SecretValue, error) {
	f, err := os.Open(path)
	if err != nil {
		return SecretValue{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxSecretBytes+1))
	if err == nil && len(text) > MaxSecretBytes {
		err = fault.Newf(fault.Invalid, "it has more than %d bytes", MaxSecretBytes)
	}
	return secret.New(string(text)), err
}

func secretInfos(names []store.SecretName) []SecretInfo {
	all := []SecretInfo{}
	for _, n := range names {
		all = append(all, SecretInfo{n.Name, n.Source})
	}
	return all
}

// checkSecretEnv rejects invalid names, and secrets for variables that env already sets.
func checkSecretEnv(wanted map[string]string, env map[string]string) error {
	for name, variable := range wanted {
		if err := secret.CheckName(name); err != nil {
			return fault.Wrap(err, "use secret", "")
		}
		if variable == "" {
			variable = name
		}
		if err := secret.CheckName(variable); err != nil {
			return fault.Wrap(err, "use secret", name)
		}
		if _, twice := env[variable]; twice {
			return invalid("%s is set by the environment and by the secret %s", variable, name)
		}
	}
	return nil
}

// secretEnv converts the field SecretEnv of a request. If a variable has no name, it gets the name
// of its secret.
func secretEnv(wanted map[string]string) []program.SecretEnv {
	var all []program.SecretEnv
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		env := wanted[name]
		if env == "" {
			env = name
		}
		all = append(all, program.SecretEnv{Secret: name, Env: env})
	}
	return all
}
