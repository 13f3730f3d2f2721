// Command repro-fix reproduces a bug in a workspace, fixes the bug, shows that the fix works, and
// exports the fix. Then it resets the workspace and reproduces the bug again.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pyro-mcp/pyro"
)

// Paths of the project and its fix, relative to the top folder of this repository.
const (
	project = "examples/roman"
	fix     = "examples/roman.patch"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := reproduceAndFix(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "repro-fix: %v\nhint: %s\n", err, cmp.Or(pyro.HintOf(err), "none"))
		os.Exit(1)
	}
}

func reproduceAndFix(ctx context.Context) (err error) {
	patch, err := os.ReadFile(fix)
	if err != nil {
		return err
	}
	p, err := pyro.New(pyro.Options{})
	if err != nil {
		return err
	}
	defer p.Close()
	w, err := p.CreateWorkspace(ctx, pyro.CreateWorkspaceRequest{Environment: "debian:12", SeedPath: project, Name: "repro-fix"})
	if err != nil {
		return err
	}
	defer func() { // runs in all cases, even if ctx is done
		_, gone := p.DeleteWorkspace(context.WithoutCancel(ctx), w.WorkspaceID)
		err = errors.Join(err, gone)
	}()
	fmt.Printf("created %s with %d files, isolated by %s\n", w.WorkspaceID, w.WorkspaceSeed.Files, w.Isolation)

	// A failed command is a result and not an error. The parameter pass is the expected result.
	test := func(pass bool) error {
		r, err := p.ExecWorkspace(ctx, pyro.ExecWorkspaceRequest{WorkspaceID: w.WorkspaceID, Argv: []string{"python3", "-B", "-m", "unittest"}, TimeoutSeconds: 60})
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSpace(r.Stderr), "\n")
		fmt.Printf("the tests end with exit code %d: %s\n", r.ExitCode, lines[len(lines)-1])
		if passed := r.ExitCode == 0; passed != pass {
			return fmt.Errorf("the tests should pass: %t, and passed: %t\n%s", pass, passed, r.Stderr)
		}
		return nil
	}
	if err := test(false); err != nil {
		return err
	}
	file, err := p.ReadWorkspaceFile(ctx, pyro.ReadWorkspaceFileRequest{WorkspaceID: w.WorkspaceID, Path: "roman.py"})
	if err != nil {
		return err
	}
	fmt.Printf("roman.py has %d bytes and knows XL: %t\n", file.SizeBytes, strings.Contains(file.Content, `"XL"`))

	applied, err := p.ApplyWorkspacePatch(ctx, pyro.ApplyWorkspacePatchRequest{WorkspaceID: w.WorkspaceID, Patch: string(patch)})
	if err != nil {
		return err
	}
	fmt.Println("patched", applied.Entries[0].Path)
	if err := test(true); err != nil {
		return err
	}
	diff, err := p.DiffWorkspace(ctx, pyro.DiffWorkspaceRequest{WorkspaceID: w.WorkspaceID})
	if err != nil {
		return err
	}
	fmt.Print(diff.Patch)

	folder, err := os.MkdirTemp("", "repro-fix-")
	if err != nil {
		return err
	}
	exported, err := p.ExportWorkspace(ctx, pyro.ExportWorkspaceRequest{WorkspaceID: w.WorkspaceID, Path: "roman.py", OutputPath: filepath.Join(folder, "roman.py")})
	if err != nil {
		return err
	}
	fmt.Println("exported to", exported.OutputPath)

	// Reset to the baseline: the original files in a new machine.
	if w, err = p.ResetWorkspace(ctx, pyro.ResetWorkspaceRequest{WorkspaceID: w.WorkspaceID}); err != nil {
		return err
	}
	if diff, err = p.DiffWorkspace(ctx, pyro.DiffWorkspaceRequest{WorkspaceID: w.WorkspaceID}); err != nil {
		return err
	}
	fmt.Printf("reset %d time; anything differs from the baseline: %t\n", w.ResetCount, diff.Changed)
	return test(false)
}
