package demo

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro"
)

// Commands that the tour runs in the workspace and in the last machine.
var (
	runTest = []string{"python3", "-B", "test.py"}
	serve   = []string{"python3", "-m", "http.server", "8000"}
	fetch   = []string{"python3", "-c", `import urllib.request as u; print(u.urlopen("` + served + `").read().decode())`}
	destroy = []string{"sh", "-c", "rm -rf /workspace/* /usr/lib/python3*"}
	// The addresses are a server on the Internet, the metadata address of clouds, and a private
	// network. The last one is a name.
	reach = []string{"bash", "-c", `for at in 1.1.1.1/443 169.254.169.254/80 10.0.0.1/22 deb.debian.org/80; do ` +
		`timeout 5 bash -c "</dev/tcp/$at" 2>&1 && echo "$at: reached" || echo "$at: not reached"; done`}
)

const (
	served   = "http://127.0.0.1:8000/means.py"
	typed    = `python3 -Bc 'from means import mean; print("the mean is", mean([1, 2, 6]))'`
	snapshot = "fixed"
)

// steps returns the steps of the tour in order, except the last step.
func (t *tour) steps() []step {
	return []step{
		{"create", "create a workspace from a folder with a buggy program", t.says("pyro workspace create ENV --seed-path " + quoted([]string{t.seed})), t.create},
		{"test", "run the test, which finds the bug", t.says("pyro workspace exec ID -- " + quoted(runTest)), t.test(false)},
		{"patch", "apply a patch, atomically", t.says("pyro workspace patch apply ID --patch-file " + quoted([]string{t.patchFile})), t.patch},
		{"fixed", "run the test again, which passes", t.says("pyro workspace exec ID -- " + quoted(runTest)), t.test(true)},
		{"diff", "show the changes since the creation, in git's format", t.says("pyro workspace diff ID"), t.diff},
		{"snapshot", "take a named snapshot", t.says("pyro workspace snapshot create ID " + snapshot), t.snapshot},
		{"service", "start a web server in the background, and wait until it answers",
			t.says("pyro workspace service start ID web --ready-http " + served + " -- " + quoted(serve)), t.service},
		{"fetch", "fetch the program from it, inside the workspace", t.says("pyro workspace exec ID -- " + quoted(fetch)), t.fetch},
		{"shell", "use an interactive shell, with its output as a terminal shows it", t.says("sh=$(pyro workspace shell open ID --id-only)\n" +
			"pyro workspace shell write ID $sh --input " + quoted([]string{typed}) + "\npyro workspace shell read ID $sh --plain --wait-for-idle-ms 100"), t.shell},
		{"break", "delete everything, including system programs: only the machine is affected", t.says("pyro workspace exec ID -- " + quoted(destroy)), t.destroy},
		{"reset", "reset to the snapshot in a fresh machine: the test passes again",
			t.says("pyro workspace reset ID --snapshot " + snapshot + "\npyro workspace exec ID -- " + quoted(runTest)), t.reset},
		{"export", "export the program to the host", t.says("pyro workspace export ID means.py --output " + quoted([]string{t.exported})), t.export},
		{"network", "without a network policy a machine reaches no address and no name", t.says("pyro run ENV -- " + quoted(reach)), t.network},
	}
}

// says returns a function that returns one or more command lines. The function replaces ENV with
// the environment and ID with the ID of the workspace.
func (t *tour) says(command string) func() string {
	return func() string {
		return strings.NewReplacer(" ENV ", " "+t.report.Environment+" ", " ID ", " "+t.id+" ").Replace(command + " ")
	}
}

// quoted quotes words for use in a shell.
func quoted(words []string) string {
	var all []string
	for _, w := range words {
		if strings.ContainsAny(w, " '\"$&;|<>()*") {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		all = append(all, w)
	}
	return strings.Join(all, " ")
}

func (t *tour) create(ctx context.Context) (string, error) {
	w, err := t.pyro.CreateWorkspace(ctx, pyro.CreateWorkspaceRequest{
		Environment: t.report.Environment, SeedPath: t.seed, Name: "pyro-demo", Progress: t.req.Progress,
	})
	if err != nil {
		return "", err
	}
	t.id, t.report.Isolation = w.WorkspaceID, w.Isolation
	if w.WorkspaceSeed.Files != 2 {
		return "", unexpected("it has %d files", w.WorkspaceSeed.Files)
	}
	return fmt.Sprintf("%s, isolated by %s, with %d files", w.WorkspaceID, w.Isolation, w.WorkspaceSeed.Files), nil
}

// exec runs a program in the workspace and returns its output.
func (t *tour) exec(ctx context.Context, argv ...string) (*pyro.WorkspaceExecResult, string, error) {
	r, err := t.pyro.ExecWorkspace(ctx, pyro.ExecWorkspaceRequest{WorkspaceID: t.id, Argv: argv, TimeoutSeconds: 60})
	if err != nil {
		return nil, "", err
	}
	return r, fmt.Sprintf("%s%s[exit code %d]", r.Stdout, r.Stderr, r.ExitCode), nil
}

func (t *tour) test(passes bool) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		r, output, err := t.exec(ctx, runTest...)
		switch {
		case err != nil:
			return "", err
		case passes && r.ExitCode != 0, !passes && (r.ExitCode == 0 || !strings.Contains(r.Stderr, "AssertionError: 7.5 != 5")):
			return output, unexpected("the test ended with exit code %d", r.ExitCode)
		}
		return output, nil
	}
}

func (t *tour) patch(ctx context.Context) (string, error) {
	r, err := t.pyro.ApplyWorkspacePatch(ctx, pyro.ApplyWorkspacePatchRequest{WorkspaceID: t.id, Patch: patch})
	if err != nil {
		return "", err
	}
	if len(r.Entries) != 1 || r.Entries[0].Path != "/workspace/means.py" && r.Entries[0].Path != "means.py" {
		return "", unexpected("it changed %v", r.Entries)
	}
	return fmt.Sprintf("changed: %s", r.Entries[0].Path), nil
}

func (t *tour) diff(ctx context.Context) (string, error) {
	r, err := t.pyro.DiffWorkspace(ctx, pyro.DiffWorkspaceRequest{WorkspaceID: t.id})
	if err != nil {
		return "", err
	}
	if !r.Changed || !strings.Contains(r.Patch, "+    return sum(numbers) / len(numbers)") {
		return r.Patch, unexpected("the diff does not contain the patch")
	}
	return r.Patch, nil
}

func (t *tour) snapshot(ctx context.Context) (string, error) {
	r, err := t.pyro.CreateSnapshot(ctx, pyro.CreateSnapshotRequest{WorkspaceID: t.id, SnapshotName: snapshot})
	if err != nil {
		return "", err
	}
	return r.Snapshot.SnapshotName + " is kept", nil
}

func (t *tour) service(ctx context.Context) (string, error) {
	s, err := t.pyro.StartService(ctx, pyro.StartServiceRequest{
		WorkspaceID: t.id, ServiceName: "web", Argv: serve, ReadyIntervalMS: 50,
		Readiness: &pyro.Readiness{Type: pyro.ReadyHTTP, Target: served},
	})
	if err != nil {
		return "", err
	}
	if s.State != pyro.ServiceRunning || s.ReadyAt == nil {
		return "", unexpected("it is %s", s.State)
	}
	return fmt.Sprintf("%s is %s, and was ready after %.1f s", s.ServiceName, s.State, s.ReadyAt.Sub(s.StartedAt).Seconds()), nil
}

func (t *tour) fetch(ctx context.Context) (string, error) {
	r, output, err := t.exec(ctx, fetch...)
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(r.Stdout) != strings.TrimSpace(fixed) {
		return output, unexpected("that is not the program")
	}
	return output, nil
}

// shellTimeout is the maximum time until typed input has an effect.
const shellTimeout = 30 * time.Second

func (t *tour) shell(ctx context.Context) (string, error) {
	s, err := t.pyro.OpenShell(ctx, pyro.OpenShellRequest{WorkspaceID: t.id})
	if err != nil {
		return "", err
	}
	if _, err := t.pyro.WriteShell(ctx, pyro.WriteShellRequest{WorkspaceID: t.id, ShellID: s.ShellID, Input: typed}); err != nil {
		return "", err
	}
	seen := ""
	for began := time.Now(); !strings.Contains(seen, "the mean is 3.0"); {
		if time.Since(began) > shellTimeout {
			return seen, unexpected("the shell did not show the mean")
		}
		r, err := t.pyro.ReadShell(ctx, pyro.ReadShellRequest{WorkspaceID: t.id, ShellID: s.ShellID, Plain: true, WaitForIdleMS: 100})
		if err != nil {
			return seen, err
		}
		seen = r.Output
	}
	_, err = t.pyro.CloseShell(ctx, t.id, s.ShellID)
	return seen, err
}

func (t *tour) destroy(ctx context.Context) (string, error) {
	_, output, err := t.exec(ctx, destroy...)
	if err != nil {
		return output, err
	}
	r, _, err := t.exec(ctx, runTest...)
	if err != nil {
		return output, err
	}
	if r.ExitCode == 0 {
		return output, unexpected("the test still passes")
	}
	return output + "\nthe test does not even start any more", nil
}

func (t *tour) reset(ctx context.Context) (string, error) {
	if _, err := t.pyro.ResetWorkspace(ctx, pyro.ResetWorkspaceRequest{WorkspaceID: t.id, Snapshot: snapshot, Progress: t.req.Progress}); err != nil {
		return "", err
	}
	return t.test(true)(ctx)
}

func (t *tour) export(ctx context.Context) (string, error) {
	if _, err := t.pyro.ExportWorkspace(ctx, pyro.ExportWorkspaceRequest{WorkspaceID: t.id, Path: "means.py", OutputPath: t.exported}); err != nil {
		return "", err
	}
	b, err := os.ReadFile(t.exported)
	if err == nil && string(b) != fixed {
		err = unexpected("that is not the program")
	}
	return string(b), err
}

func (t *tour) network(ctx context.Context) (string, error) {
	r, err := t.pyro.RunInVM(ctx, pyro.RunInVMRequest{Environment: t.report.Environment, Argv: reach, TimeoutSeconds: 60, Progress: t.req.Progress})
	if err != nil {
		return "", err
	}
	if r.ExitCode != 0 || strings.Count(r.Stdout, ": not reached\n") != 4 || strings.Contains(r.Stdout, ": reached") {
		return r.Stdout + r.Stderr, unexpected("an address was reached, or the test did not run (exit code %d)", r.ExitCode)
	}
	return r.Stdout, nil
}

// delete returns the step that deletes the demo's workspaces. It is the last one, and the tour
// always runs it.
func (t *tour) delete() step {
	return step{"delete", "the workspace and its files are removed", t.says("pyro workspace delete ID"), func(ctx context.Context) (string, error) {
		if _, err := t.pyro.DeleteWorkspace(ctx, t.id); err != nil {
			return "", err
		}
		all, err := t.pyro.ListWorkspaces(ctx)
		for _, w := range all {
			if w.WorkspaceID == t.id {
				err = unexpected("it is still there")
			}
		}
		return t.id + " is gone", err
	}}
}
