package cli

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// parseSecrets reads values of --secret and --secret-file.
func parseSecrets(values, files []string) (all []pyro.Secret, err error) {
	for _, v := range values {
		name, text, ok := strings.Cut(v, "=")
		if !ok {
			return nil, fault.New(fault.Invalid, "read", "--secret", "it is not NAME=VALUE") // and is not shown: it may be a secret
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

// secretEnvFlag adds --secret-env to a command.
func secretEnvFlag(f *pflag.FlagSet, values *[]string) {
	f.StringArrayVar(values, "secret-env", nil, "put a secret of the workspace in an environment variable, as `SECRET[=ENV]` (repeatable)")
}

// parseSecretEnv reads values of --secret-env.
func parseSecretEnv(values []string) (map[string]string, error) {
	wanted := map[string]string{}
	for _, v := range values {
		name, env, given := strings.Cut(v, "=")
		if name == "" || given && env == "" {
			return nil, fault.New(fault.Invalid, "read", "--secret-env", "%q is not SECRET or SECRET=ENV", v)
		}
		if _, twice := wanted[name]; twice {
			return nil, fault.New(fault.Invalid, "read", "--secret-env", "%s is there twice", name)
		}
		if !given {
			env = name
		}
		wanted[name] = env
	}
	return wanted, nil
}

// secretNames gives the names of secrets and where they came from.
func secretNames(all []pyro.SecretInfo) string {
	var names []string
	for _, s := range all {
		names = append(names, s.Name+" ("+s.SourceKind+")")
	}
	return strings.Join(names, ", ")
}
