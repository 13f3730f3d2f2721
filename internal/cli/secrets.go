package cli

import (
	"strings"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// parseSecrets parses the values of the flags --secret and --secret-file.
func parseSecrets(values, files []string) (all []pyro.Secret, err error) {
	for _, v := range values {
		name, text, ok := strings.Cut(v, "=")
		if !ok {
			return nil, fault.New(fault.Invalid, "read", "--secret", "it is not NAME=VALUE") // the message omits the value, because the value can be a secret
		}
		all = append(all, pyro.Secret{Name: name, Value: pyro.NewSecretValue(text)})
	}
	for _, f := range files {
		name, path, ok := strings.Cut(f, "=")
		if !ok || path == "" {
			return nil, fault.New(fault.Invalid, "read", "--secret-file", "%q is not NAME=PATH", f)
		}
		all = append(all, pyro.Secret{Name: name, FilePath: path})
	}
	return all, nil
}

// secretNames returns the names of secrets, each with its source, as text.
func secretNames(all []pyro.SecretInfo) string {
	var names []string
	for _, s := range all {
		names = append(names, s.Name+" ("+s.SourceKind+")")
	}
	return strings.Join(names, ", ")
}
