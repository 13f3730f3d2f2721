// Command review-eval reviews a change. It runs a check-list in a shell. It evaluates the change
// with a program that writes a report, and exports the report. Then a reset removes all traces of
// the review.
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
	"time"

	"github.com/pyro-mcp/pyro"
)

// Paths of the project, the change and the evaluation, relative to the top folder of this
// repository.
const (
	project    = "examples/roman"
	change     = "examples/roman.patch"
	evaluation = "examples/roman_evaluation.py"
)

// checklist contains the lines that are typed into one shell. Variables persist between the lines.
var checklist = []struct{ subject, line string }{
	{"settings for the rest", `export WIDTH=120 PYTHONDONTWRITEBYTECODE=1`},
	{"it compiles", `python3 -c 'compile(open("roman.py").read(), "roman.py", "exec")'`},
	{"no line is too long", `awk -v w=$WIDTH 'length > w { print FILENAME ": " FNR; bad = 1 } END { exit bad }' roman.py`},
	{"the tests pass", `python3 -m unittest --quiet`},
	{"no TODO is left", `! grep -n TODO *.py`},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := review(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "review-eval: %v\nhint: %s\n", err, cmp.Or(pyro.HintOf(err), "none"))
		os.Exit(1)
	}
}

func review(ctx context.Context) (err error) {
	patch, err := os.ReadFile(change)
	if err != nil {
		return err
	}
	program, err := os.ReadFile(evaluation)
	if err != nil {
		return err
	}
	p, err := pyro.New(pyro.Options{})
	if err != nil {
		return err
	}
	defer p.Close()
	w, err := p.CreateWorkspace(ctx, pyro.CreateWorkspaceRequest{Environment: "debian:12", SeedPath: project, Name: "review-eval"})
	if err != nil {
		return err
	}
	id := w.WorkspaceID
	defer func() { // runs in all cases, even if ctx is done
		_, gone := p.DeleteWorkspace(context.WithoutCancel(ctx), id)
		err = errors.Join(err, gone)
	}()
	if _, err := p.ApplyWorkspacePatch(ctx, pyro.ApplyWorkspacePatchRequest{WorkspaceID: id, Patch: string(patch)}); err != nil {
		return err
	}
	kept, err := p.CreateSnapshot(ctx, pyro.CreateSnapshotRequest{WorkspaceID: id, SnapshotName: "to-review"})
	if err != nil {
		return err
	}
	fmt.Printf("%s has the change, kept as %q\n", id, kept.Snapshot.SnapshotName)

	if err := runChecklist(ctx, p, id); err != nil {
		return err
	}
	if _, err := p.WriteWorkspaceFile(ctx, pyro.WriteWorkspaceFileRequest{WorkspaceID: id, Path: "evaluation.py", Text: string(program)}); err != nil {
		return err
	}
	r, err := p.ExecWorkspace(ctx, pyro.ExecWorkspaceRequest{WorkspaceID: id, Argv: []string{"python3", "-B", "evaluation.py", "report.json"}, TimeoutSeconds: 60})
	if err != nil {
		return err
	}
	if r.ExitCode != 0 {
		return fmt.Errorf("the evaluation ended with exit code %d:\n%s", r.ExitCode, r.Stderr)
	}
	folder, err := os.MkdirTemp("", "review-eval-")
	if err != nil {
		return err
	}
	exported, err := p.ExportWorkspace(ctx, pyro.ExportWorkspaceRequest{WorkspaceID: id, Path: "report.json", OutputPath: filepath.Join(folder, "report.json")})
	if err != nil {
		return err
	}
	fmt.Printf("the evaluation says %q, its report is %s\n", strings.TrimSpace(r.Stdout), exported.OutputPath)
	done, err := p.SummarizeWorkspace(ctx, id)
	if err != nil {
		return err
	}
	fmt.Printf("done: %d commands, %d edits, %d shells, %d exports\n", done.Commands.Total, done.Edits.Total, done.Shells.Total, done.Artifacts.Total)

	// The reset removes everything that the review created, including the shell. The change
	// remains.
	if _, err := p.ResetWorkspace(ctx, pyro.ResetWorkspaceRequest{WorkspaceID: id, Snapshot: "to-review"}); err != nil {
		return err
	}
	diff, err := p.DiffWorkspace(ctx, pyro.DiffWorkspaceRequest{WorkspaceID: id})
	if err != nil {
		return err
	}
	for _, e := range diff.Entries {
		fmt.Println("after the review differs from the baseline:", e.Path)
	}
	return nil
}

// runChecklist types the check-list into a shell, line by line, and reads the results.
func runChecklist(ctx context.Context, p *pyro.Pyro, id string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	shell, err := p.OpenShell(ctx, pyro.OpenShellRequest{WorkspaceID: id})
	if err != nil {
		return err
	}
	cursor := int64(0)
	for _, check := range checklist {
		// The shell prints the exit code at the beginning of a line. The echo of the typed command
		// contains the same text, but not at the beginning of a line.
		line := check.line + `; echo "ended: $?"`
		if _, err := p.WriteShell(ctx, pyro.WriteShellRequest{WorkspaceID: id, ShellID: shell.ShellID, Input: line}); err != nil {
			return err
		}
		seen, end := "", ""
		for !strings.Contains(end, "\n") {
			out, err := p.ReadShell(ctx, pyro.ReadShellRequest{WorkspaceID: id, ShellID: shell.ShellID, Cursor: cursor, Plain: true, WaitForIdleMS: 300})
			if err != nil {
				return err
			}
			seen, cursor = seen+out.Output, out.NextCursor
			if _, end, _ = strings.Cut(seen, "\nended: "); out.State != pyro.ShellRunning {
				break
			}
		}
		if !strings.HasPrefix(end, "0\n") {
			return fmt.Errorf("check: %s: no\n%s", check.subject, seen)
		}
		fmt.Println("check:", check.subject)
	}
	_, err = p.CloseShell(ctx, id, shell.ShellID)
	return err
}
