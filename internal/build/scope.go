package build

import (
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/shell"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// variables is an ordered list of variables. It implements [shell.EnvGetter].
type variables []string // NAME=VALUE

func (v variables) Get(name string) (string, bool) {
	for _, entry := range slices.Backward(v) {
		if key, value, _ := strings.Cut(entry, "="); key == name {
			return value, true
		}
	}
	return "", false
}

// Keys returns the names of all variables.
func (v variables) Keys() []string {
	var names []string
	for _, entry := range v {
		name, _, _ := strings.Cut(entry, "=")
		names = append(names, name)
	}
	return names
}

// set returns the variables with a new value for one of them.
func (v variables) set(name, value string) variables {
	entry := name + "=" + value
	if i := slices.IndexFunc(v, func(e string) bool { return strings.HasPrefix(e, name+"=") }); i >= 0 {
		v = slices.Clone(v)
		v[i] = entry
		return v
	}
	return append(slices.Clip(v), entry)
}

var _ shell.EnvGetter = variables(nil)

// platform returns the arguments whose values come from the build itself, such as TARGETARCH.
func platform() map[string]string {
	all := map[string]string{}
	for _, side := range []string{"TARGET", "BUILD"} {
		all[side+"PLATFORM"], all[side+"OS"], all[side+"ARCH"], all[side+"VARIANT"] = "linux/"+runtime.GOARCH, "linux", runtime.GOARCH, ""
	}
	return all
}

// proxies are the arguments that RUN gets without a declaration. They do not change the result.
var proxies = []string{"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy"}

// globalScope returns the values of the arguments before the first FROM. given contains the values
// that the caller chose.
func (d *dockerfile) globalScope(given map[string]string) (variables, error) {
	var scope variables
	for name, value := range platform() {
		scope = scope.set(name, value)
	}
	for _, c := range d.args {
		if err := c.Expand(d.word(scope)); err != nil {
			return nil, invalidAt(err, c.Location())
		}
		for _, a := range c.Args {
			value, known := given[a.Key]
			switch {
			case known:
				scope = scope.set(a.Key, value)
			case a.Value != nil:
				scope = scope.set(a.Key, *a.Value)
			}
		}
	}
	return scope, nil
}

// word returns a function that expands the variables in a word.
func (d *dockerfile) word(scope variables) instructions.SingleWordExpander {
	return func(word string) (string, error) {
		text, _, err := d.lex.ProcessWord(word, scope)
		return text, err
	}
}

// checkArgs returns an error if an argument has a value that no ARG declares, neither in the
// Dockerfile nor in the triggers of its bases. A misspelled name would otherwise go unnoticed.
func (d *dockerfile) checkArgs(given map[string]string, triggers []string) error {
	declared := platform()
	for _, name := range proxies {
		declared[name] = ""
	}
	note := func(c *instructions.ArgCommand) {
		for _, a := range c.Args {
			declared[a.Key] = ""
		}
	}
	for i := range d.args {
		note(&d.args[i])
	}
	for _, s := range d.stages {
		for _, c := range s.Commands {
			switch c := c.(type) {
			case *instructions.ArgCommand:
				note(c)
			case *instructions.OnbuildCommand:
				triggers = append(triggers, c.Expression)
			}
		}
	}
	commands, _ := parseTriggers(triggers) // the stage that runs a malformed trigger reports it
	for _, c := range commands {
		if arg, ok := c.(*instructions.ArgCommand); ok {
			note(arg)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, ok := declared[name]; !ok {
			return fault.Newf(fault.Invalid, "the Dockerfile has no ARG %s", name)
		}
	}
	return nil
}
