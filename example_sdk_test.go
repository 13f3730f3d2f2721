package pyro_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/pyro-mcp/pyro"
)

// exampleWorkspace creates a workspace for an example, without a machine. Programs on a host that
// can start machines set neither StateDir nor AllowHostCompat.
func exampleWorkspace(ctx context.Context) (ws *pyro.Workspace, remove func()) {
	folder := exampleFolder()
	p, err := pyro.New(pyro.Options{StateDir: filepath.Join(folder, "state")})
	if err != nil {
		log.Fatal(err)
	}
	ws, err = p.CreateWorkspace(ctx, pyro.CreateWorkspaceRequest{
		Environment: "debian:12", SeedPath: filepath.Join(folder, "src"), AllowHostCompat: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	return ws, func() {
		ws.Delete(ctx)
		p.Close()
		os.RemoveAll(folder)
	}
}

func ExampleWorkspace_Command() {
	ws, remove := exampleWorkspace(context.Background())
	defer remove()

	out, err := ws.Command("sh", "calc.sh").Output()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", out)

	cmd := ws.Command("tr", "a-z", "A-Z")
	cmd.Stdin, cmd.Stdout = strings.NewReader("hello\n"), os.Stdout
	if err := cmd.Run(); err != nil {
		log.Fatal(err)
	}

	var exit *pyro.ExitError
	_, err = ws.Command("sh", "-c", "echo 'no such rule' >&2; exit 2").Output()
	if errors.As(err, &exit) {
		fmt.Printf("exit code %d: %s", exit.ExitCode(), exit.Stderr)
	}
	// Output:
	// 13
	// HELLO
	// exit code 2: no such rule
}

func ExampleWorkspace_FS() {
	ws, remove := exampleWorkspace(context.Background())
	defer remove()

	fsys := ws.FS()
	if err := fsys.WriteFile("notes/todo.txt", []byte("multiply\n"), 0o644); err != nil {
		log.Fatal(err)
	}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			fmt.Println(name)
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := fsys.RemoveAll("notes"); err != nil {
		log.Fatal(err)
	}
	_, err = fsys.ReadFile("notes/todo.txt")
	fmt.Println(errors.Is(err, fs.ErrNotExist), errors.Is(err, pyro.ErrNotFound))
	// Output:
	// calc.sh
	// notes/todo.txt
	// true true
}

// An HTTP client talks to a server in a workspace that has no network.
func ExampleWorkspace_DialContext() {
	ctx := context.Background()
	ws, remove := exampleWorkspace(ctx)
	defer remove()

	server := ws.Command("python3", "-m", "http.server", "--bind", "127.0.0.1", "18123")
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	defer server.Process.Kill()

	client := &http.Client{Transport: &http.Transport{DialContext: ws.DialContext}}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://localhost:18123/calc.sh")
	if err != nil {
		log.Fatal(err) // if the server starts slowly, try again while the error is pyro.ErrUnavailable
	}
	defer resp.Body.Close()
	io.Copy(os.Stdout, resp.Body)
}

func ExamplePyro_Workspaces() {
	ctx := context.Background()
	p, err := pyro.New(pyro.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	for ws, err := range p.Workspaces(ctx, pyro.WorkspaceFilter{State: pyro.StateStarted}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(ws.WorkspaceID, ws.Environment)
		for c, err := range ws.Commands(ctx) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(c.Sequence, c.Argv, c.DurationMS)
		}
	}
}

func ExamplePyro_Workspace() {
	ctx := context.Background()
	p, err := pyro.New(pyro.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	ws, err := p.Workspace(ctx, "ws-000000000000")
	switch {
	case errors.Is(err, pyro.ErrNotFound):
		fmt.Println(err)
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Println(ws.Name, ws.State)
	}
	// Output:
	// find workspace "ws-000000000000": no workspace has this ID or name
}
