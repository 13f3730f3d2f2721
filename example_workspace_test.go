package pyro_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/pyro-mcp/pyro"
)

// These examples run as tests on the host, without a machine: AllowHostCompat permits that.

// exampleFolder creates a folder for an example. Its subfolder src contains a program of two lines.
func exampleFolder() (folder string) {
	folder, err := os.MkdirTemp("", "pyro-example-")
	if err == nil {
		err = os.Mkdir(filepath.Join(folder, "src"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "src", "calc.sh"), []byte("a=6 b=7\necho $((a + b))\n"), 0o644)
	}
	if err != nil {
		log.Fatal(err)
	}
	return folder
}

// Create a workspace from a folder, run a file, patch it, and run it again. Then review, save, undo
// and export the changes.
func ExamplePyro_CreateWorkspace() {
	ctx, folder := context.Background(), exampleFolder()
	defer os.RemoveAll(folder)
	p, err := pyro.New(pyro.Options{StateDir: filepath.Join(folder, "state")}) // most programs use no options
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	w, err := p.CreateWorkspace(ctx, pyro.CreateWorkspaceRequest{
		Environment: "debian:12", SeedPath: filepath.Join(folder, "src"), Name: "calc", AllowHostCompat: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(w.Name, "is", w.State, "with", w.WorkspaceSeed.Files, "file")
	run := func() {
		r, err := p.ExecWorkspace(ctx, pyro.ExecWorkspaceRequest{WorkspaceID: w.WorkspaceID, Argv: []string{"sh", "calc.sh"}})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("command %d in %s says %q\n", r.Sequence, r.Cwd, r.Stdout)
	}
	run()

	_, err = p.WriteWorkspaceFile(ctx, pyro.WriteWorkspaceFileRequest{WorkspaceID: w.WorkspaceID, Path: "notes/todo.txt", Text: "multiply\n"})
	if err != nil {
		log.Fatal(err)
	}
	applied, err := p.ApplyWorkspacePatch(ctx, pyro.ApplyWorkspacePatchRequest{
		WorkspaceID: w.WorkspaceID,
		Patch: `--- a/calc.sh
+++ b/calc.sh
@@ -1,2 +1,2 @@
 a=6 b=7
-echo $((a + b))
+echo $((a * b))
`,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("patched:", applied.Entries[0].Path)
	run()

	diff, err := p.DiffWorkspace(ctx, pyro.DiffWorkspaceRequest{WorkspaceID: w.WorkspaceID})
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range diff.Entries {
		fmt.Println("differs:", e.Path, e.Kind, e.Status)
	}
	if _, err := p.CreateSnapshot(ctx, pyro.CreateSnapshotRequest{WorkspaceID: w.WorkspaceID, SnapshotName: "fixed"}); err != nil {
		log.Fatal(err)
	}
	if _, err := p.ResetWorkspace(ctx, pyro.ResetWorkspaceRequest{WorkspaceID: w.WorkspaceID}); err != nil {
		log.Fatal(err)
	}
	run()
	if _, err := p.ResetWorkspace(ctx, pyro.ResetWorkspaceRequest{WorkspaceID: w.WorkspaceID, Snapshot: "fixed"}); err != nil {
		log.Fatal(err)
	}
	run()

	exported, err := p.ExportWorkspace(ctx, pyro.ExportWorkspaceRequest{
		WorkspaceID: w.WorkspaceID, Path: "notes", OutputPath: filepath.Join(folder, "out"),
	})
	if err != nil {
		log.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(exported.OutputPath, "todo.txt"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("exported %d file: %s", exported.Files, text)
	if _, err := p.DeleteWorkspace(ctx, w.WorkspaceID); err != nil {
		log.Fatal(err)
	}
	_, err = p.StatusWorkspace(ctx, w.WorkspaceID)
	fmt.Println(pyro.KindOf(err))
	// Output:
	// calc is started with 1 file
	// command 1 in /workspace says "13\n"
	// patched: calc.sh
	// command 2 in /workspace says "42\n"
	// differs: calc.sh file modified
	// differs: notes directory added
	// differs: notes/todo.txt file added
	// command 1 in /workspace says "13\n"
	// command 1 in /workspace says "42\n"
	// exported 1 file: multiply
	// not_found
}

// A patch that does not fit changes nothing, and the error says where it does not fit.
func ExamplePyro_ApplyWorkspacePatch_conflict() {
	ctx, folder := context.Background(), exampleFolder()
	defer os.RemoveAll(folder)
	p, err := pyro.New(pyro.Options{StateDir: filepath.Join(folder, "state")})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	w, err := p.CreateWorkspace(ctx, pyro.CreateWorkspaceRequest{Environment: "debian:12", SeedPath: filepath.Join(folder, "src"), AllowHostCompat: true})
	if err != nil {
		log.Fatal(err)
	}
	defer p.DeleteWorkspace(ctx, w.WorkspaceID)

	_, err = p.ApplyWorkspacePatch(ctx, pyro.ApplyWorkspacePatchRequest{
		WorkspaceID: w.WorkspaceID, Patch: "--- a/calc.sh\n+++ b/calc.sh\n@@ -2 +2 @@\n-echo $((a - b))\n+echo $((a * b))\n",
	})
	var conflict *pyro.PatchConflict
	if errors.As(err, &conflict) {
		fmt.Printf("%s: line %d of %s is %q\n", pyro.KindOf(err), conflict.Line, conflict.Path, strings.Join(conflict.Found, "\n"))
	}
	// Output:
	// failed_precondition: line 2 of calc.sh is "echo $((a + b))"
}

// Create a machine, start it, and run a command in it. The machine is deleted after the command.
func ExamplePyro_CreateVM() {
	ctx, folder := context.Background(), exampleFolder()
	defer os.RemoveAll(folder)
	p, err := pyro.New(pyro.Options{StateDir: filepath.Join(folder, "state")})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	vm, err := p.CreateVM(ctx, pyro.CreateVMRequest{Environment: "debian:12", TTLSeconds: 60, AllowHostCompat: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(vm.State)
	if vm, err = p.StartVM(ctx, vm.VMID); err != nil {
		log.Fatal(err)
	}
	fmt.Println(vm.State, "with isolation", vm.Isolation)
	r, err := p.ExecVM(ctx, pyro.ExecVMRequest{VMID: vm.VMID, Command: "echo $((6 * 7)); exit 3"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(r.Stdout)
	fmt.Println("exit code", r.ExitCode)
	_, err = p.StatusVM(ctx, vm.VMID)
	fmt.Println(pyro.KindOf(err))
	// Output:
	// created
	// started with isolation none
	// 42
	// exit code 3
	// not_found
}

// Start a service in the background, keep state in a shell, and give one program a secret.
func ExamplePyro_OpenShell() {
	ctx, folder := context.Background(), exampleFolder()
	defer os.RemoveAll(folder)
	p, err := pyro.New(pyro.Options{StateDir: filepath.Join(folder, "state")})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	w, err := p.CreateWorkspace(ctx, pyro.CreateWorkspaceRequest{
		Environment: "debian:12", AllowHostCompat: true, Secrets: []pyro.Secret{{Name: "TOKEN", Value: pyro.NewSecretValue("correct horse")}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer p.DeleteWorkspace(ctx, w.WorkspaceID)

	service, err := p.StartService(ctx, pyro.StartServiceRequest{
		WorkspaceID: w.WorkspaceID, ServiceName: "counter", Command: "for i in 1 2 3; do echo $i; done; touch ready; sleep 1000",
		Readiness: &pyro.Readiness{Type: pyro.ReadyFile, Target: "ready"},
	})
	if err != nil {
		log.Fatal(err)
	}
	logs, err := p.LogsService(ctx, pyro.LogsServiceRequest{WorkspaceID: w.WorkspaceID, ServiceName: "counter", TailLines: 1})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, its last line is %q\n", service.State, logs.Stdout)

	shell, err := p.OpenShell(ctx, pyro.OpenShellRequest{
		WorkspaceID: w.WorkspaceID, SecretEnv: map[string]string{"TOKEN": ""}, Env: map[string]string{"PS1": "$ ", "HOME": folder},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, line := range []string{"cd /tmp", `echo "in $PWD the token is $TOKEN"`} {
		if _, err := p.WriteShell(ctx, pyro.WriteShellRequest{WorkspaceID: w.WorkspaceID, ShellID: shell.ShellID, Input: line}); err != nil {
			log.Fatal(err)
		}
	}
	seen, cursor := "", int64(0)
	for !strings.Contains(seen, "REDACTED]\n") {
		out, err := p.ReadShell(ctx, pyro.ReadShellRequest{WorkspaceID: w.WorkspaceID, ShellID: shell.ShellID, Cursor: cursor, Plain: true, WaitForIdleMS: 300})
		if err != nil {
			log.Fatal(err)
		}
		seen, cursor = seen+out.Output, out.NextCursor
	}
	for line := range strings.Lines(seen) {
		if strings.HasPrefix(line, "in ") {
			fmt.Print(line)
		}
	}
	// Output:
	// running, its last line is "3\n"
	// in /tmp the token is [REDACTED]
}
