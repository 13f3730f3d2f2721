package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/agent/client"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/gen/hostagent/v1/hostagentv1connect"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// host measures the host agent as clients see it, over gRPC on the loopback interface.
func (b *bench) host() error {
	return b.onWorkspaces(func(w *workspaces) (steps []step) {
		for _, k := range w.hostKinds() {
			steps = append(steps, step{"host agent under " + string(k.isolation), func() error { return w.hosted(k) }})
		}
		return steps
	})
}

// hostKinds returns the kinds of workspaces that this host supports.
func (w *workspaces) hostKinds() []kind {
	if len(w.kinds) == 0 {
		w.findKinds()
	}
	return w.kinds
}

// hostAgent is a running host agent.
type hostAgent struct {
	cmd *exec.Cmd
	hostagentv1connect.HostAgentServiceClient

	wide hostagentv1connect.HostAgentServiceClient // a client with larger HTTP/2 frames than the default
}

const hostToken = "the-token-of-a-measurement"

// withToken adds the bearer token to each request.
type withToken struct{ http.RoundTripper }

func (t withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+hostToken)
	return t.RoundTripper.RoundTrip(r)
}

// serveHost starts a host agent.
func (w *workspaces) serveHost(k kind) (*hostAgent, error) {
	h := &hostAgent{cmd: exec.CommandContext(w.ctx, "bin/pyro", "host", "serve", "--listen", "127.0.0.1:0", "--network-policy", "off", "--log-level", "error", "--vcpus", "0", "--memory-mb", "0")}
	h.cmd.Env = append(os.Environ(), "PYRO_STATE_DIR="+w.state, "PYRO_ISOLATION="+string(k.isolation), "PYRO_HOST_TOKEN="+hostToken)
	address, err := startServing(h.cmd)
	h.HostAgentServiceClient, h.wide = hostClient(address, 0), hostClient(address, 256<<10)
	return h, err
}

// startServing starts a server and returns the address that it prints.
func startServing(cmd *exec.Cmd) (address string, err error) {
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, address, ok := strings.Cut(lines.Text(), "serving at "); ok {
			go io.Copy(io.Discard, out)
			return address, nil
		}
	}
	return "", errors.Join(fmt.Errorf("%s does not serve", cmd), cmd.Process.Kill(), cmd.Wait())
}

// hostClient returns a client that accepts HTTP/2 frames up to the given size. If the size is 0,
// the default size applies.
func hostClient(address string, frame int) hostagentv1connect.HostAgentServiceClient {
	transport := &http.Transport{Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxReadFrameSize: frame}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	return hostagentv1connect.NewHostAgentServiceClient(&http.Client{Transport: withToken{transport}}, address, connect.WithGRPC())
}

// end destroys all sandboxes and stops the host agent.
func (h *hostAgent) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
	defer cancel()
	_, err := h.Terminate(ctx, connect.NewRequest(&pb.TerminateRequest{}))
	if err != nil {
		h.cmd.Process.Signal(syscall.SIGTERM)
	}
	return errors.Join(err, h.cmd.Wait())
}

// hostedSandboxes is the number of sandboxes in the measurements of lists and idle sandboxes.
const hostedSandboxes = 50

func (w *workspaces) hosted(k kind) (err error) {
	h, err := w.serveHost(k)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.end(w.ctx)) }()
	if _, err := h.CreateSandbox(w.ctx, connect.NewRequest(&pb.CreateSandboxRequest{SandboxId: "one", MemoryMb: 2560})); err != nil {
		return err
	}
	for _, measure := range []func(*hostAgent, kind) error{w.hostExec, w.hostRead, w.hostList, w.hostIdle} {
		if err := measure(h, k); err != nil {
			return err
		}
	}
	return nil
}

// hostExec compares a command that runs through the host agent with the same command through
// package pyro in the same machine.
func (w *workspaces) hostExec(h *hostAgent, k kind) error {
	all, err := h.ListSandboxes(w.ctx, connect.NewRequest(&pb.ListSandboxesRequest{}))
	if err != nil {
		return err
	}
	id := all.Msg.Sandboxes[0].Metadata["workspace_id"]
	r, err := w.times(max(w.n, 10)*10, func() error {
		_, err := h.Exec(w.ctx, connect.NewRequest(&pb.ExecRequest{SandboxId: "one", Cmd: "/bin/true"}))
		return err
	}, func() error {
		_, err := w.run(id, "/bin/true")
		return err
	})
	if err != nil {
		return err
	}
	w.figures = append(w.figures, figure(string(k.isolation)+": host agent: Exec of /bin/true over gRPC; floor: over package pyro", "ms", r[0]).over(r[1], 2))
	return nil
}

// hostFile is in memory, because the transfer is measured and not the disk.
const hostFile = "/dev/shm/big"

// hostRead compares the throughput of reading a large file with the throughput of a machine's link.
// It also measures the memory of the host agent.
func (w *workspaces) hostRead(h *hostAgent, k kind) error {
	if _, err := h.Exec(w.ctx, connect.NewRequest(&pb.ExecRequest{SandboxId: "one", Cmd: "fallocate", Args: []string{"-l", fmt.Sprint(bigFile), hostFile}, TimeoutSec: 300})); err != nil {
		return err
	}
	m, err := w.machineOf(k.driver)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := m.Agent.WriteFile(w.ctx, client.FileSpec{Path: "/dev/shm/file", Size: fileSize}, io.LimitReader(zeroes{}, fileSize)); err != nil {
		return err
	}
	r, err := w.alternate(max(w.n/3, 3), w.streamed(h), w.streamed(h.wide), func() (float64, error) {
		began := time.Now()
		_, err := m.Agent.ReadFile(w.ctx, "/dev/shm/file", 0, 0, io.Discard)
		return rate(fileSize, time.Since(began)), err
	})
	if err != nil {
		return err
	}
	peak, err := kilobytes(h.cmd.Process.Pid, "status", "VmHWM")
	of := string(k.isolation) + ": host agent: ReadFileStream of 1 GiB"
	w.figures = append(w.figures, figure(of+"; floor: the link, without anything between", "MB/s", r[0]).share(r[2], 0.7),
		figure(of+", by a client that takes frames of 256 KiB; the same floor", "MB/s", r[1]).share(r[2], 0.7),
		figure(string(k.isolation)+": host agent: its peak memory by then", "MiB", []float64{peak}).atMost(48))
	return err
}

// streamed returns a function that reads the large file and returns the throughput.
func (w *workspaces) streamed(h hostagentv1connect.HostAgentServiceClient) func() (float64, error) {
	return func() (float64, error) {
		began := time.Now()
		err := w.hostReads(h, "one", bigFile)
		return rate(bigFile, time.Since(began)), err
	}
}

// hostReads reads the large file of a sandbox and checks its size.
func (w *workspaces) hostReads(h hostagentv1connect.HostAgentServiceClient, sandbox string, want int) error {
	s, err := h.ReadFileStream(w.ctx, connect.NewRequest(&pb.ReadFileStreamRequest{SandboxId: sandbox, Path: hostFile}))
	if err != nil {
		return err
	}
	defer s.Close()
	size := 0
	for s.Receive() {
		size += len(s.Msg().Chunk)
	}
	if s.Err() == nil && size != want {
		return fmt.Errorf("%d bytes came", size)
	}
	return s.Err()
}

// hostList measures how many lists of many sandboxes the host agent returns per second to
// concurrent clients.
func (w *workspaces) hostList(h *hostAgent, k kind) error {
	if k.isolation != pyro.IsolationGVisor { // lists do not depend on the isolation level
		return nil
	}
	for i := range hostedSandboxes - 1 {
		if _, err := h.CreateSandbox(w.ctx, connect.NewRequest(&pb.CreateSandboxRequest{SandboxId: fmt.Sprintf("list-%d", i), MemoryMb: 128})); err != nil {
			return err
		}
	}
	const clients, lists = 4, 250
	var rates []float64
	for range max(w.n/3, 3) {
		began := time.Now()
		failed := make(chan error, clients)
		for range clients {
			go func() {
				for range lists {
					all, err := h.ListSandboxes(w.ctx, connect.NewRequest(&pb.ListSandboxesRequest{}))
					if err == nil && len(all.Msg.Sandboxes) != hostedSandboxes {
						err = fmt.Errorf("%d sandboxes are listed", len(all.Msg.Sandboxes))
					}
					if err != nil {
						failed <- err
						return
					}
				}
				failed <- nil
			}()
		}
		var err error
		for range clients {
			err = errors.Join(err, <-failed)
		}
		if err != nil {
			return err
		}
		rates = append(rates, clients*lists/time.Since(began).Seconds())
	}
	w.figures = append(w.figures, figure(fmt.Sprintf("host agent: ListSandboxes of %d", hostedSandboxes), "calls/s", rates).atLeast(1000))
	return nil
}

// hostIdle measures the processor time that idle sandboxes use. To measure the floor, it stops the
// host agent with SIGSTOP. The sandboxes are then plain workspaces.
func (w *workspaces) hostIdle(h *hostAgent, k kind) error {
	if k.isolation != pyro.IsolationGVisor { // this does not depend on the isolation level
		return nil
	}
	all := family(h.cmd.Process.Pid)
	used := func(d time.Duration) float64 {
		before := processorTime(all)
		time.Sleep(d)
		return 100 * (processorTime(all) - before).Seconds() / d.Seconds() / hostedSandboxes
	}
	time.Sleep(5 * time.Second) // wait until earlier work has ended
	idle := used(time.Minute)   // long enough to include a sample of each sandbox
	if err := h.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	floor := used(30 * time.Second)
	if err := h.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	name := fmt.Sprintf("host agent: each of %d idle sandboxes; floor: without the host agent", hostedSandboxes)
	w.figures = append(w.figures, figure(name, "% of a processor", []float64{idle}).over([]float64{floor}, 0.1))
	return nil
}

// processorTime returns the total processor time of the given processes.
func processorTime(pids []int) (total time.Duration) {
	for _, pid := range pids {
		used, _ := remote.ProcessorTime(pid)
		total += used
	}
	return total
}
