package agenthost

import (
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/lazyregexp"
)

// Default name and profile of pyro's server in a host's configuration.
const (
	DefaultName    = "pyro"
	DefaultProfile = "workspace-core"
)

// Server is an MCP server. A host starts it as a program and talks to it over stdio.
type Server struct {
	Name    string // name in the host's configuration
	Command string // a path, or the name of a program in PATH
	Args    []string
	Env     map[string]string // variables that are added to the host's own environment
}

// Same reports whether two servers have the same command, arguments and environment.
func (s Server) Same(as Server) bool {
	return s.Command == as.Command && slices.Equal(s.Args, as.Args) && maps.Equal(s.Env, as.Env)
}

// String returns the command line, quoted for users.
func (s Server) String() string {
	words := make([]string, 0, 1+len(s.Args))
	for _, word := range append([]string{s.Command}, s.Args...) {
		words = append(words, Quote(word))
	}
	return strings.Join(words, " ")
}

var (
	serverName = lazyregexp.New(`^[A-Za-z0-9_-]{1,64}$`)
	plainWord  = lazyregexp.New(`^[A-Za-z0-9_@%+=:,./-]+$`)
)

// Quote quotes a word for use in a shell.
func Quote(word string) string {
	if plainWord().MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(fault.Printable(word), "'", `'\''`) + "'"
}

// Check returns an Invalid error if the name or another text of the server is not valid for all
// hosts.
func (s Server) Check() error {
	if !serverName().MatchString(s.Name) {
		return fault.Newf(fault.Invalid, "the server's name is %q: it must be 1 to 64 letters, digits, - and _", s.Name)
	}
	for _, text := range slices.Concat([]string{s.Command}, s.Args, s.environment()) {
		if text != fault.Printable(text) || strings.Contains(text, "\n") {
			return fault.Newf(fault.Invalid, "%q contains control characters", text)
		}
	}
	return nil
}

// environment returns the variables in Env as NAME=VALUE, sorted by name.
func (s Server) environment() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		all = append(all, name+"="+s.Env[name])
	}
	return all
}

// Called returns the absolute path of a program under the name that it was called by. If that path
// does not lead to program, Called returns program.
func Called(name, program string) string {
	found, err := exec.LookPath(name)
	if err != nil {
		return program
	}
	if found, err = filepath.Abs(found); err != nil || !same(found, program) {
		return program
	}
	return found
}
