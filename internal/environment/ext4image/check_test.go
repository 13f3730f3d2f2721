package ext4image

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Check runs e2fsck without repairs. If the file system is damaged, the error has kind Corrupt. If
// e2fsprogs is not installed, the error has kind Unavailable.
func Check(ctx context.Context, path string) error {
	program, err := locate("e2fsck")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, "-fn", path)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err = cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return &fault.Error{Op: "check file system", Kind: fault.Corrupt, Err: fmt.Errorf("%w: %s", err, lastLines(output.String()))}
	}
	return nil
}

// locate finds a tool in PATH or in the sbin directories. The PATH of ordinary users does not
// contain the sbin directories.
func locate(tool string) (string, error) {
	for _, name := range []string{tool, "/usr/sbin/" + tool, "/sbin/" + tool} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fault.New(fault.Unavailable, "find", tool, "not installed").WithHint("sudo apt-get install e2fsprogs")
}

func lastLines(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "; ")
}
