package process

import (
	"context"
	"errors"
	"os/exec"
	"regexp"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Version asks a program for its version, the first group of pattern in what it answers to --version. The program is called name in errors.
func Version(ctx context.Context, name, path string, pattern *regexp.Regexp) (string, error) {
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", fault.Wrap(err, "run "+name, path)
	}
	m := pattern.FindSubmatch(out)
	if m == nil {
		return "", fault.Wrap(errors.New("it does not tell its version"), "run "+name, path)
	}
	return string(m[1]), nil
}
