package agenthost

import (
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// What a host is given of pyro unless it is told otherwise.
const (
	DefaultName    = "pyro"
	DefaultProfile = "workspace-core"
)

// Server is an MCP server that a host starts as a program, and talks to over its standard input and output.
type Server struct {
	Name    string // that the host knows it by
	Command string // a path, or a name to be found in PATH
	Args    []string
	Env     map[string]string // beside the host's own environment
}

// Same tells that two servers are started in the same way.
func (s Server) Same(as Server) bool {
	return s.Command == as.Command && slices.Equal(s.Args, as.Args) && maps.Equal(s.Env, as.Env)
}

// String is the command line, for people.
func (s Server) String() string {
	words := make([]string, 0, 1+len(s.Args))
	for _, word := range append([]string{s.Command}, s.Args...) {
		words = append(words, Quote(word))
	}
	return strings.Join(words, " ")
}

var (
	serverName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	plainWord  = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)
)

// Quote is a word as a shell takes it.
func Quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(fault.Printable(word), "'", `'\''`) + "'"
}

// Check refuses a server that not every host can hold.
func (s Server) Check() error {
	if !serverName.MatchString(s.Name) {
		return fault.Newf(fault.Invalid, "the server's name is %q: it must be 1 to 64 letters, digits, - and _", s.Name)
	}
	for _, text := range slices.Concat([]string{s.Command}, s.Args, s.environment()) {
		if text != fault.Printable(text) || strings.Contains(text, "\n") {
			return fault.Newf(fault.Invalid, "%q has characters that no configuration should have", text)
		}
	}
	return nil
}

// environment is what it has in the environment, as NAME=VALUE, sorted.
func (s Server) environment() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		all = append(all, name+"="+s.Env[name])
	}
	return all
}

// Called is the absolute path that leads from a name, by which a program was called, to the program; or the program's own.
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
