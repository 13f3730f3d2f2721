package program

import (
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// MaxEnvFile is the maximum size of a file of environment variables, in bytes.
const MaxEnvFile = 1 << 20

// ReadEnvFile reads environment variables from a file in Docker's format. Each line is NAME=VALUE,
// and the value can contain anything. Quotes are part of it. NAME alone takes the value of this
// process, if it has one. Empty lines and lines that begin with # are ignored. A later line wins.
//
// If the file is too large or a line is invalid, the error has kind Invalid and names the line.
func ReadEnvFile(path string) (map[string]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fault.Wrap(err, "read environment file", path)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, MaxEnvFile+1))
	if err == nil && len(text) > MaxEnvFile {
		err = fault.Newf(fault.Invalid, "it has more than %d KiB", MaxEnvFile>>10)
	}
	var env map[string]string
	if err == nil {
		env, err = parseEnvFile(string(text), os.LookupEnv)
	}
	return env, fault.Wrap(err, "read environment file", path)
}

// parseEnvFile parses the content of a file. The function lookup returns the value for a name
// without a value, and whether there is one.
func parseEnvFile(text string, lookup func(name string) (string, bool)) (map[string]string, error) {
	env := map[string]string{}
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		number++
		line = strings.TrimLeft(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, given := strings.Cut(line, "=")
		invalid := func(reason string) error {
			return fault.Newf(fault.Invalid, "line %d %s", number, reason).WithHint("each line must be NAME=VALUE, NAME or a # comment")
		}
		switch {
		case !utf8.ValidString(line):
			return nil, invalid("is not UTF-8")
		case strings.ContainsRune(line, 0):
			return nil, invalid("has a NUL byte")
		case name == "":
			return nil, invalid("has no name before =")
		case strings.ContainsFunc(name, unicode.IsSpace):
			return nil, invalid("has white space in its name")
		}
		if !given {
			value, given = lookup(name)
		}
		if given {
			env[name] = value
		}
	}
	return env, nil
}
