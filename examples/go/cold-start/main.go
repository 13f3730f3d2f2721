// Command cold-start starts a web service from scratch. It creates a machine, starts the service,
// connects to the service from the host, and removes everything.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro"
)

// app is the folder of the service, relative to the top of this repository.
const app = "examples/visits"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := coldStart(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "cold-start: %v\nhint: %s\n", err, cmp.Or(pyro.HintOf(err), "none"))
		os.Exit(1)
	}
}

func coldStart(ctx context.Context) (err error) {
	p, err := pyro.New(pyro.Options{})
	if err != nil {
		return err
	}
	defer p.Close()
	began := time.Now()
	w, err := p.CreateWorkspace(ctx, pyro.CreateWorkspaceRequest{
		Environment: "debian:12", SeedPath: app, Name: "cold-start", NetworkPolicy: pyro.NetworkPublished,
		Progress: func(done pyro.Progress) { fmt.Fprintf(os.Stderr, "%s: %s\n", done.Subject, done.Phase) }, // prints progress, at least for the first use on a host
	})
	if err != nil {
		return err
	}
	defer func() { // runs in all cases, even if ctx is done
		_, gone := p.DeleteWorkspace(context.WithoutCancel(ctx), w.WorkspaceID)
		err = errors.Join(err, gone)
	}()
	service, err := p.StartService(ctx, pyro.StartServiceRequest{
		WorkspaceID: w.WorkspaceID, ServiceName: "visits", Argv: []string{"python3", "-u", "app.py"},
		Readiness:      &pyro.Readiness{Type: pyro.ReadyHTTP, Target: "http://127.0.0.1:8000/health"},
		PublishedPorts: []pyro.PublishedPort{{GuestPort: 8000}}, // on a free port of the host
	})
	if err != nil {
		return err
	}
	address := fmt.Sprint("127.0.0.1:", service.PublishedPorts[0].HostPort)
	fmt.Printf("from nothing to %s at http://%s in %.1f s, isolated by %s\n", service.State, address, time.Since(began).Seconds(), w.Isolation)

	for range 3 {
		text, err := fetch(ctx, "http://"+address+"/hello")
		if err != nil {
			return err
		}
		fmt.Print(text)
	}
	if service, err = p.StopService(ctx, w.WorkspaceID, "visits"); err != nil {
		return err
	}
	connection, err := net.Dial("tcp", address)
	if err == nil {
		connection.Close()
		return fmt.Errorf("something answers at %s although the service is %s", address, service.State)
	}
	fmt.Printf("it is %s, and nothing listens there any more\n", service.State)
	// The output is available until the workspace is deleted. While the service runs, the last
	// lines might be missing.
	logs, err := p.LogsService(ctx, pyro.LogsServiceRequest{WorkspaceID: w.WorkspaceID, ServiceName: "visits"})
	if err != nil {
		return err
	}
	fmt.Println("it logged", strings.Count(logs.Stderr, "GET /hello "), "visits")
	return nil
}

func fetch(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", url, answer.Status)
	}
	return string(text), err
}
