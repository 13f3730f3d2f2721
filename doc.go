// Package pyro runs programs in isolated Linux machines, on any Linux host. A machine is a virtual
// machine or, if the host has no hardware virtualization, a gVisor sandbox.
//
// # Start here
//
// [New] returns a [Pyro], which uses the user's folders by default. [Pyro.CreateWorkspace] creates
// a workspace: a persistent machine with files in /workspace. The methods of a [Workspace] resemble
// Go's standard library.
//
//	p, err := pyro.New(pyro.Options{})
//	if err != nil {
//		return err
//	}
//	defer p.Close()
//
// Create a workspace and run a command in it:
//
//	ws, err := p.CreateWorkspace(ctx, pyro.CreateWorkspaceRequest{Environment: "debian:12"})
//	if err != nil {
//		return err
//	}
//	defer ws.Delete(ctx)
//	out, err := ws.Command("uname", "-sr").Output() // as in os/exec.
//
// To run a single command in a new machine that pyro removes afterwards, use [Pyro.RunInVM].
//
// An environment is an image for machines, such as debian:12. The first use of an environment on a
// host takes a minute or two: pyro pulls the environment and prepares a saved machine or an image.
// Later starts take a fraction of a second. Requests for long work have a field Progress for a
// function that receives reports about the work.
//
// # Workspaces
//
// A workspace has an identity, files, snapshots and a history. You can stop, start, pause, fork and
// delete a workspace, or reset it to a snapshot. A workspace keeps running after the program that
// created it has exited. When its time to live ends, pyro stops the workspace but does not delete
// its files.
//
// [Pyro.Workspace] finds a workspace by its id or name, and [Pyro.Workspaces] iterates over all
// workspaces. A [Workspace] is a handle. Its fields show the state at the time when it was
// returned; [Workspace.Refresh] updates them.
//
// Each operation is also a method of [Pyro] with a request and a result, such as
// [Pyro.ExecWorkspace]. These methods offer all options. The command line, the MCP tools and
// JSON-RPC use the same methods. The methods of a Workspace are shorter forms for Go programs.
//
// # Commands
//
// [Workspace.Command] returns a [Cmd]. Like the Cmd of os/exec, it has methods such as Run, Output,
// Start and Wait, and fields such as Stdin, Stdout, Dir and Env. A command from
// [Workspace.CommandContext] is killed when its context ends. If a command runs but fails, the
// error is an [ExitError].
//
// [Workspace.DialContext] connects to a TCP port in the workspace, for example for an
// http.Transport. It also works if the workspace has no network.
//
// For background programs, see [Pyro.StartService]. For terminals, see [Pyro.OpenShell].
//
// # Files
//
// [Workspace.FS] returns the folder /workspace as an io/fs.FS. The result also has the methods
// WriteFile, MkdirAll, Remove and RemoveAll. [Pyro.PushWorkspaceSync] copies files into a
// workspace, and [Pyro.ExportWorkspace] copies files out. [Pyro.DiffWorkspace] compares the files
// with their state at creation. [Pyro.ApplyWorkspacePatch] applies a patch completely or not at
// all.
//
// # Errors
//
// Every error has a kind. To test the kind, use errors.Is with one of the Err variables, such as
// [ErrNotFound], or switch on [KindOf]. If pyro knows a command or an action that fixes the error,
// [HintOf] returns it.
//
// # Isolation
//
// Results name the isolation level that was used: kvm, gvisor or tcg, in order of preference. If a
// request names a level, pyro never uses another level. If that level does not work, the request
// fails with kind [Unavailable]. Commands run on the host itself only if the request sets
// AllowHostCompat and no machine can be started. [Pyro.Doctor] reports what the host supports and
// how to fix problems.
package pyro
