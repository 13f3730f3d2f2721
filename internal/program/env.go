package program

import (
	"maps"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// CheckEnv checks environment variables. It returns an error of kind Invalid in these cases: a name
// is invalid, a text contains a NUL byte, or all variables together have more than limit bytes.
func CheckEnv(variables map[string]string, limit int) error {
	total := 0
	for name, value := range variables {
		total += len(name) + len(value) + 2
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return fault.Newf(fault.Invalid, "%.80q is not an environment variable", name)
		}
	}
	if total > limit {
		return fault.Newf(fault.Invalid, "%d bytes of environment variables: at most %d", total, limit)
	}
	return nil
}

// Environ returns variables in the form NAME=VALUE, sorted by name.
func Environ(variables map[string]string) []string {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		env = append(env, name+"="+variables[name])
	}
	return env
}

// MergeEnv joins lists of NAME=VALUE. A variable in a later list replaces the same variable in an
// earlier list. If both stayed in the list, programs would use the first.
func MergeEnv(lists ...[]string) []string {
	var env []string
	at := map[string]int{}
	for _, list := range lists {
		for _, variable := range list {
			name, _, _ := strings.Cut(variable, "=")
			if i, known := at[name]; known {
				env[i] = variable
				continue
			}
			at[name] = len(env)
			env = append(env, variable)
		}
	}
	return env
}
