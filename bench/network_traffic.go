package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/bench/floor"
	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/program"
)

const guestPort = 8000

// peer is a machine with a network, as the measurements use it.
type peer struct {
	name   string
	run    func(argv ...string) (string, error) // runs the program traffic in the machine
	served string                               // address on the host that is forwarded to a server in the machine
}

// networks compares machines of each kind with a machine that uses slirp.
func (b *bench) networks() (err error) {
	end, err := b.world()
	if err != nil {
		return err
	}
	defer end()
	w, err := b.newWorkspaces()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.remove()) }()
	w.findKinds()
	peers := make([]peer, 1+len(w.kinds)) // the first peer is the floor
	for i, k := range w.kinds {
		if peers[1+i], err = w.peer(k); err != nil {
			return err
		}
	}
	bare, err := b.slirp()
	if err != nil {
		return err
	}
	defer bare.close()
	peers[0] = bare.peer
	for _, measure := range []func([]peer) error{b.throughput, b.connected, b.published} {
		if err := measure(peers); err != nil {
			return err
		}
	}
	return w.startedWithNetwork()
}

// peer creates a workspace that has network access and a published server.
func (w *workspaces) peer(k kind) (peer, error) {
	seed := filepath.Join(w.dir, "traffic-seed")
	program, err := os.ReadFile(w.program("traffic"))
	if err == nil {
		err = errors.Join(os.MkdirAll(seed, 0o755), os.WriteFile(filepath.Join(seed, "traffic"), program, 0o755))
	}
	if err != nil {
		return peer{}, err
	}
	made, err := w.sdk.CreateWorkspace(w.ctx, pyro.CreateWorkspaceRequest{
		Environment: environmentName, Isolation: k.isolation, SeedPath: seed, VCPUCount: vcpus, MemMiB: memMiB, NetworkPolicy: pyro.NetworkPublished,
	})
	if err != nil {
		return peer{}, err
	}
	id := made.WorkspaceID
	s, err := w.sdk.StartService(w.ctx, pyro.StartServiceRequest{
		WorkspaceID: id, ServiceName: "traffic", Argv: []string{"/workspace/traffic", "serve", fmt.Sprint(":", guestPort)},
		Readiness: &pyro.Readiness{Type: pyro.ReadyTCP, Target: fmt.Sprint(guestPort)}, PublishedPorts: []pyro.PublishedPort{{GuestPort: guestPort}},
	})
	if err != nil {
		return peer{}, err
	}
	run := func(argv ...string) (string, error) {
		return w.run(id, append([]string{"/workspace/traffic"}, argv...)...)
	}
	return peer{string(k.isolation), run, fmt.Sprint("127.0.0.1:", s.PublishedPorts[0].HostPort)}, nil
}

// slirp is the floor: a bare QEMU machine with user networking, restored from the same template. It
// is also the floor for gVisor.
type slirp struct {
	peer
	close func()
}

func (b *bench) slirp() (s slirp, err error) {
	t, err := b.findTemplate(true)
	if err != nil {
		return s, err
	}
	port, err := freePort()
	if err != nil {
		return s, err
	}
	m, err := floor.Restore(t, b.image, "-netdev", fmt.Sprintf("user,id=net,hostfwd=tcp:%s-:%d", port, guestPort))
	if err != nil {
		return s, err
	}
	s = slirp{peer: peer{name: "slirp", served: port}, close: m.Close}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	c, err := client.Dial(b.ctx, m.Link)
	if err != nil {
		return s, err
	}
	s.close = func() {
		c.Close()
		m.Close()
	}
	own := client.NewIdentity("floor")
	own.Network = &client.Network{ // the addresses that slirp assigns
		MAC: net.HardwareAddr{0x52, 0x54, 0, 0x12, 0x34, 0x56}, Address: netip.MustParsePrefix("10.0.2.15/24"), Gateway: netip.MustParseAddr("10.0.2.2"),
		DNS: []netip.Addr{netip.MustParseAddr("10.0.2.3")}, MTU: 1500,
	}
	if err := c.Renew(b.ctx, own); err != nil {
		return s, err
	}
	if err := b.put(c, "traffic"); err != nil {
		return s, err
	}
	s.run = func(argv ...string) (string, error) {
		var out, complaint bytes.Buffer
		exit, err := c.Exec(b.ctx, program.Command{Argv: append([]string{"/root/traffic"}, argv...)}, program.Attach{Stdout: &out, Stderr: &complaint})
		if err == nil && exit.Code != 0 {
			err = fmt.Errorf("exit code %d: %s", exit.Code, complaint.String())
		}
		return out.String(), err
	}
	go s.run("serve", fmt.Sprint(":", guestPort)) // runs until the machine ends
	return s, awaitPort(port)
}

// freePort returns an unused port of the loopback interface, with its address.
func freePort() (string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// inAll runs the same command in each machine, alternately. It returns the printed medians by
// machine and round. It ignores the first round, which is a warm-up.
func (b *bench) inAll(peers []peer, argv ...string) ([][]float64, error) {
	all := make([][]float64, len(peers))
	for turn := range b.n + 1 {
		for i, p := range peers {
			text, err := p.run(argv...)
			if err != nil {
				return nil, fmt.Errorf("%s: %q: %w", p.name, argv, err)
			}
			var values []float64
			for _, word := range strings.Fields(text) {
				value, err := strconv.ParseFloat(word, 64)
				if err != nil {
					return nil, err
				}
				values = append(values, value)
			}
			if turn > 0 {
				all[i] = append(all[i], quantile(values, 0.5))
			}
		}
	}
	return all, nil
}

// throughput measures transfers between the machine and the remote server in both directions.
func (b *bench) throughput(peers []peer) error {
	for _, way := range []struct{ argument, name string }{{"put", "TCP from the machine to the world"}, {"get", "TCP from the world to the machine"}} {
		all, err := b.inAll(peers, way.argument, world, "1")
		if err != nil {
			return err
		}
		for i, p := range peers[1:] {
			b.figures = append(b.figures, figure(p.name+": "+way.name+"; floor: slirp", "MB/s", all[i+1]).share(all[0], 0.8))
		}
	}
	return nil
}

// connected measures the time to connect from the machine to the remote server.
func (b *bench) connected(peers []peer) error {
	all, err := b.inAll(peers, "connect", world, "50")
	if err != nil {
		return err
	}
	for i, p := range peers[1:] {
		b.figures = append(b.figures, figure(p.name+": TCP connect in the machine; floor: slirp", "ms", all[i+1]).times(all[i+1], all[0], 1))
	}
	return nil
}

// published measures requests from the host to a server in the machine. Each request uses a new
// connection.
func (b *bench) published(peers []peer) error {
	var requests []func() error
	for _, p := range peers {
		requests = append(requests, func() error { return request(p.served) })
	}
	all, err := b.times(b.n*20, requests...)
	if err != nil {
		return err
	}
	for i, p := range peers[1:] {
		b.figures = append(b.figures, figure(p.name+": a request to a published port; floor: slirp's hostfwd", "ms", all[i+1]).times(all[i+1], all[0], 1))
	}
	return nil
}

// startedWithNetwork measures how much longer a start takes with a network.
func (w *workspaces) startedWithNetwork() error {
	for _, k := range w.kinds {
		start := func(network bool) func() error {
			return func() error {
				_, err := w.sdk.RunInVM(w.ctx, pyro.RunInVMRequest{Environment: environmentName, Argv: []string{"true"}, Isolation: k.isolation, Network: network})
				return err
			}
		}
		r, err := w.times(w.n, start(true), start(false))
		if err != nil {
			return err
		}
		w.figures = append(w.figures, figure(string(k.isolation)+": RunInVM(true) with a network; floor: without one", "ms", r[0]).over(r[1], 15))
	}
	return nil
}
