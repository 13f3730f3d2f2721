package pyro

import (
	"io"
	"maps"
	"os"
	"slices"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// SecretValue is a text that hides itself, however it is printed, logged or written as JSON. It can be read from JSON.
type SecretValue = secret.Value

// NewSecretValue makes a text a secret.
func NewSecretValue(text string) SecretValue { return secret.New(text) }

// Secret is a text that programs in a workspace can be given in an environment variable, and nobody is shown. One of Value and FilePath is set. It is UTF-8, without
// NUL, of at most MaxSecretBytes.
type Secret struct {
	Name     string      `json:"name"`                // letters, digits and underscores
	Value    SecretValue `json:"value,omitzero"`      // as it is
	FilePath string      `json:"file_path,omitempty"` // or what a file of the host holds
}

// The bounds of a workspace's secrets.
const (
	MaxSecretBytes = secret.MaxBytes // of one
	MaxSecrets     = secret.MaxCount // of one workspace
)

// SecretInfo is what is shown of a secret.
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

// checkSecretEnv refuses what can't be asked for.
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

// secretEnv gives the secrets that are to be in environment variables. No name of a variable: that of the secret.
func secretEnv(wanted map[string]string) []remote.SecretEnv {
	var all []remote.SecretEnv
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		env := wanted[name]
		if env == "" {
			env = name
		}
		all = append(all, remote.SecretEnv{Secret: name, Env: env})
	}
	return all
}
