// Command parallel tries several changes to a project concurrently. Each change has its own
// workspace. The command writes the best change to a file.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro"
)

// Paths of the project, the changes to try, and the evaluation, relative to the top folder of this
// repository.
const (
	project    = "examples/roman"
	changes    = "examples/candidates/*.patch"
	evaluation = "examples/roman_evaluation.py"
)

// candidate is a change and the results of its evaluation.
type candidate struct {
	name   string
	passed bool // the project's own tests passed
	right  int  // number of cases of the evaluation that passed
	diff   string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := tryAll(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "parallel: %v\nhint: %s\n", err, cmp.Or(pyro.HintOf(err), "none"))
		os.Exit(1)
	}
}

func tryAll(ctx context.Context) error {
	patches, err := filepath.Glob(changes)
	if err != nil || len(patches) == 0 {
		return fmt.Errorf("no changes in %s", changes)
	}
	p, err := pyro.New(pyro.Options{})
	if err != nil {
		return err
	}
	defer p.Close()
	began := time.Now()
	candidates, errs := make([]candidate, len(patches)), make([]error, len(patches))
	var all sync.WaitGroup
	for i, patch := range patches {
		all.Go(func() { candidates[i], errs[i] = try(ctx, p, patch) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Printf("%d workspaces in %.1f s\n", len(candidates), time.Since(began).Seconds())
	for _, c := range candidates {
		fmt.Printf("%s: the tests pass: %t, %d cases are right\n", c.name, c.passed, c.right)
	}
	candidates = slices.DeleteFunc(candidates, func(c candidate) bool { return !c.passed })
	if len(candidates) == 0 {
		return errors.New("none of the changes passes the tests")
	}
	best := slices.MaxFunc(candidates, func(a, b candidate) int { return cmp.Compare(a.right, b.right) })
	folder, err := os.MkdirTemp("", "parallel-")
	if err != nil {
		return err
	}
	output := filepath.Join(folder, "best.patch")
	if err := os.WriteFile(output, []byte(best.diff), 0o644); err != nil {
		return err
	}
	fmt.Printf("the best is %s: %s\n", best.name, output)
	return nil
}

// try creates a workspace from the project, applies a change and evaluates the change.
func try(ctx context.Context, p *pyro.Pyro, patch string) (c candidate, err error) {
	c.name = filepath.Base(patch)
	text, err := os.ReadFile(patch)
	if err != nil {
		return c, err
	}
	w, err := p.CreateWorkspace(ctx, pyro.CreateWorkspaceRequest{Environment: "debian:12", SeedPath: project, Name: "parallel", Labels: map[string]string{"change": c.name}})
	if err != nil {
		return c, err
	}
	id := w.WorkspaceID
	defer func() { // runs in all cases, even if ctx is done
		_, gone := p.DeleteWorkspace(context.WithoutCancel(ctx), id)
		err = errors.Join(err, gone)
	}()
	if _, err := p.ApplyWorkspacePatch(ctx, pyro.ApplyWorkspacePatchRequest{WorkspaceID: id, Patch: string(text)}); err != nil {
		return c, err
	}
	diff, err := p.DiffWorkspace(ctx, pyro.DiffWorkspaceRequest{WorkspaceID: id})
	if err != nil {
		return c, err
	}
	c.diff = diff.Patch
	r, err := p.ExecWorkspace(ctx, pyro.ExecWorkspaceRequest{WorkspaceID: id, Argv: []string{"python3", "-B", "-m", "unittest"}, TimeoutSeconds: 120})
	if err != nil {
		return c, err
	}
	c.passed = r.ExitCode == 0

	program, err := os.ReadFile(evaluation)
	if err != nil {
		return c, err
	}
	if _, err := p.WriteWorkspaceFile(ctx, pyro.WriteWorkspaceFileRequest{WorkspaceID: id, Path: "evaluation.py", Text: string(program)}); err != nil {
		return c, err
	}
	r, err = p.ExecWorkspace(ctx, pyro.ExecWorkspaceRequest{WorkspaceID: id, Argv: []string{"python3", "-B", "evaluation.py", "report.json"}, TimeoutSeconds: 120})
	if err != nil {
		return c, err
	}
	var report struct{ Right int }
	if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil {
		return c, fmt.Errorf("evaluation of %s: %w\n%s", c.name, err, r.Stderr)
	}
	c.right = report.Right
	return c, nil
}
