package pull

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/diff"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// merge merges the lines of a file that both sides have changed. Only text files can be merged. If
// both sides have added the file, its baseline is empty.
func (p *planner) merge(host entry, c diff.Change) (Result, error) {
	added := c.Status == diff.Added || c.Status == diff.TypeChanged && c.OldKind == diff.Directory
	if host.kind != diff.File || c.Kind != diff.File || !added && c.Status != diff.Modified {
		return Conflicted, nil
	}
	o := operation{path: c.Path, expect: host.mark, size: c.NewSize}
	// Take the executable bit of the side that has changed it.
	exec := executable(host.mode)
	if !added && executable(c.Before) != executable(c.After) {
		exec = executable(c.After)
	}
	if c.Status == diff.Modified {
		kept, err := p.equals(host, c.Path, diff.File, host.mode, c.OldSize, "", p.sides.Baseline)
		if err != nil {
			return "", err
		}
		if kept { // the host has changed only the mode
			p.write(o, host, exec)
			return Merged, nil
		}
		if kept, err = p.equalInWorkspace(c); err != nil {
			return "", err
		}
		if kept { // the workspace has changed only the mode
			o.do, o.mode = setMode, withExecutable(host.mode, exec)
			p.operations = append(p.operations, o)
			return Merged, nil
		}
	}
	merged, marked, err := p.mergeLines(c)
	if err != nil || merged == nil {
		return Conflicted, err
	}
	o.size, o.content = int64(len(merged)), merged
	p.write(o, host, exec)
	if marked {
		return Marked, nil
	}
	return Merged, nil
}

// equalInWorkspace reports whether a file has the same content in the workspace and the baseline.
func (p *planner) equalInWorkspace(c diff.Change) (bool, error) {
	if c.OldSize != c.NewSize {
		return false, nil
	}
	before, err := p.sides.Baseline.Open(p.ctx, c.Path)
	if err != nil {
		return false, err
	}
	defer before.Close()
	after, err := p.sides.Workspace.Open(p.ctx, c.Path)
	if err != nil {
		return false, err
	}
	defer after.Close()
	return equalContent(before, after)
}

// mergeLines merges the lines of the three versions of a file. merged is nil if one of them is not
// text.
func (p *planner) mergeLines(c diff.Change) (merged []byte, marked bool, err error) {
	var texts [3][]byte // texts of the host, the baseline and the workspace
	for i, open := range []func() (io.ReadCloser, error){
		func() (io.ReadCloser, error) {
			return openBeneath(p.sides.Folder, c.Path, unix.O_RDONLY|unix.O_NONBLOCK)
		},
		func() (io.ReadCloser, error) {
			if c.Status != diff.Modified {
				return io.NopCloser(bytes.NewReader(nil)), nil
			}
			return p.sides.Baseline.Open(p.ctx, c.Path)
		},
		func() (io.ReadCloser, error) { return p.sides.Workspace.Open(p.ctx, c.Path) },
	} {
		text, err := textOf(open)
		if err != nil || text == nil {
			return nil, false, err
		}
		texts[i] = text
	}
	return mergeText(p.ctx, texts)
}

// textOf returns the content of a text file, which is not nil. It returns nil if the file is not
// text, or is too large.
func textOf(open func() (io.ReadCloser, error)) ([]byte, error) {
	f, err := open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, diff.MaxText+1))
	if err != nil || len(text) > diff.MaxText || bytes.IndexByte(text, 0) >= 0 {
		return nil, err
	}
	return append([]byte{}, text...), nil
}

// mergeText merges three texts with git.
func mergeText(ctx context.Context, texts [3][]byte) (merged []byte, marked bool, err error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, false, fault.New(fault.Precondition, "merge", "", "git is not installed on this host").WithHint("apt-get install git")
	}
	dir, err := os.MkdirTemp("", "pyro-merge-")
	if err != nil {
		return nil, false, err
	}
	defer os.RemoveAll(dir)
	args := []string{"merge-file", "-p", "-q"}
	for _, label := range []string{"host", "baseline", "workspace"} {
		args = append(args, "-L", label)
	}
	for i, name := range []string{"host", "baseline", "workspace"} {
		if err := os.WriteFile(filepath.Join(dir, name), texts[i], 0o600); err != nil {
			return nil, false, err
		}
		args = append(args, name)
	}
	cmd := exec.CommandContext(ctx, git, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_DIR="+dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null") // no configuration applies
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() > 0 && exit.ExitCode() < 128 {
		return out, true, nil // the exit code is the number of conflicts
	}
	return append([]byte{}, out...), false, err
}
