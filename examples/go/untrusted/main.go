// Command untrusted runs untrusted code without a network. It inspects the result in the running
// machine, then stops the machine and inspects its disk.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro"
)

// code is the folder that contains the untrusted code, relative to the top folder of this
// repository.
const code = "examples/untrusted"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := inspect(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "untrusted: %v\nhint: %s\n", err, cmp.Or(pyro.HintOf(err), "none"))
		os.Exit(1)
	}
}

func inspect(ctx context.Context) (err error) {
	// Create two targets on the host: a file, and a port that must not get connections. The code
	// gets their addresses.
	folder, err := os.MkdirTemp("", "untrusted-")
	if err != nil {
		return err
	}
	bait, content := filepath.Join(folder, "bait"), []byte("of the host")
	if err := os.WriteFile(bait, content, 0o666); err != nil {
		return err
	}
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer port.Close()

	p, err := pyro.New(pyro.Options{})
	if err != nil {
		return err
	}
	defer p.Close()
	w, err := p.CreateWorkspace(ctx, pyro.CreateWorkspaceRequest{
		Environment: "debian:12", SeedPath: code, Name: "untrusted", NetworkPolicy: pyro.NetworkOff, TTLSeconds: 300,
	})
	if err != nil {
		return err
	}
	defer func() { // runs in all cases, even if ctx is done
		_, gone := p.DeleteWorkspace(context.WithoutCancel(ctx), w.WorkspaceID)
		err = errors.Join(err, gone)
	}()
	fmt.Printf("running it in %s, isolated by %s, network %s\n", w.WorkspaceID, w.Isolation, w.NetworkPolicy)
	r, err := p.ExecWorkspace(ctx, pyro.ExecWorkspaceRequest{
		WorkspaceID: w.WorkspaceID, TimeoutSeconds: 120,
		Argv: []string{"python3", "-uB", "suspicious.py", bait, strconv.Itoa(port.Addr().(*net.TCPAddr).Port)},
	})
	if err != nil {
		return err
	}
	for line := range strings.Lines(r.Stdout) {
		fmt.Printf("  it says %q\n", strings.TrimSpace(line)) // quoted, because untrusted output must not reach the terminal unchanged
	}
	fmt.Printf("it ended with exit code %d\n", r.ExitCode)

	// Inspect the effects in the machine.
	if r.OutOfMemory {
		fmt.Println("its machine ran out of memory") // the machine might have ended too
	} else if err := inspectMachine(ctx, p, w.WorkspaceID); err != nil {
		return err
	}

	// Check that the host is unchanged.
	if got, err := os.ReadFile(bait); err != nil || !bytes.Equal(got, content) {
		return fmt.Errorf("the file on the host is not what it was: %q, %w", got, err)
	}
	port.(*net.TCPListener).SetDeadline(time.Now().Add(100 * time.Millisecond))
	if c, err := port.Accept(); err == nil {
		c.Close()
		return errors.New("it reached the host")
	}
	fmt.Println("on the host: the file is as it was, and nothing has connected")
	if _, err := p.StopWorkspace(ctx, w.WorkspaceID); err != nil {
		return err
	}
	return inspectDisk(ctx, p, w.WorkspaceID, filepath.Join(folder, "disk.ext4"))
}

// inspectMachine inspects the running machine.
func inspectMachine(ctx context.Context, p *pyro.Pyro, id string) error {
	r, err := p.ExecWorkspace(ctx, pyro.ExecWorkspaceRequest{WorkspaceID: id, Command: "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -c '[s]uspicious.py'"})
	if err != nil {
		return err
	}
	fmt.Println("processes it left in its machine:", strings.TrimSpace(r.Stdout))
	diff, err := p.DiffWorkspace(ctx, pyro.DiffWorkspaceRequest{WorkspaceID: id})
	if err != nil {
		return err
	}
	for _, e := range diff.Entries {
		fmt.Println(e.Status, e.Path)
	}
	return nil
}

// inspectDisk inspects the disk without running any program, so malware can't hide.
func inspectDisk(ctx context.Context, p *pyro.Pyro, id, image string) error {
	list, err := p.ListWorkspaceDisk(ctx, pyro.ListWorkspaceDiskRequest{WorkspaceID: id})
	if pyro.KindOf(err) == pyro.Unsupported {
		fmt.Println("its disk can't be read here:", err)
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range list.Entries {
		fmt.Printf("on its disk: %s, %d bytes\n", e.Path, e.SizeBytes)
	}
	loot, err := p.ReadWorkspaceDisk(ctx, pyro.ReadWorkspaceDiskRequest{WorkspaceID: id, Path: "loot.txt"})
	if err != nil {
		return err
	}
	fmt.Printf("its loot is %q, the name of its own machine\n", strings.TrimSpace(loot.Content))
	exported, err := p.ExportWorkspaceDisk(ctx, pyro.ExportWorkspaceDiskRequest{WorkspaceID: id, OutputPath: image})
	if err != nil {
		return err
	}
	fmt.Printf("the whole disk, for tools of your own: %s, %s\n", exported.OutputPath, exported.DiskFormat)
	return nil
}
