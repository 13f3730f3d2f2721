package process

import (
	"context"
	"errors"
	"os/exec"
	"regexp"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Version runs a program with --version and returns the first group of pattern in the output. The
// parameter name is the program's name in errors.
func Version(ctx context.Context, name, path string, pattern *regexp.Regexp) (string, error) {
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", fault.Wrap(err, "run "+name, path)
	}
	m := pattern.FindSubmatch(out)
	if m == nil {
		return "", fault.Wrap(errors.New("it does not print its version"), "run "+name, path)
	}
	return string(m[1]), nil
}
