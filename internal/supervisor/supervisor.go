// Package supervisor owns machines. For each machine it manages the folder, the connection to the
// agent, the time to live and the end.
//
// All resources of a machine are in its folder or end with its owner process. The owner locks the
// folder. If the owner has died, the next pyro process finds the folder unlocked, and Sweep removes
// it.
package supervisor

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/network"
	"github.com/pyro-mcp/pyro/internal/network/egress"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/store"
)

// agentPatience is the time within which the agent of a started machine must answer, be renewed and
// mount the disks. It is long enough for emulation on a busy host. A machine that ends is noticed
// immediately.
const agentPatience = 2 * time.Minute

// Config describes a machine.
type Config struct {
	Dirs     dirs.Dirs
	Driver   machine.Driver
	Root     machine.Root
	VCPUs    int
	MemMiB   int
	TTL      time.Duration // time after which the machine is ended; 0 means never
	Progress progress.Func

	Network *Network // nil if the machine has no network

	HostNetwork *store.HostNetwork // the host's network settings to install in a machine that boots; can be nil

	Persistent *Persistent // nil if no data of the machine is kept
}

// Persistent is the part of a machine that outlives it.
type Persistent struct {
	ID      string           // ID and host name; they never change.
	Folder  string           // the machine's folder, which the caller has locked; Start empties it
	Storage *machine.Storage // Start mounts its volume
	// Saved is the folder of a saved machine (machine.Spec.Saved), whose programs continue when
	// Resume is called. If it is empty, the machine boots.
	Saved  string
	Copied bool // another machine might continue from Saved too, so remove data that must be unique

	Started func(machine.Machine) error // called before storage is mounted; can be nil
}

// Network describes the network of a machine. The driver must have machine.Features.Network.
type Network struct {
	Policy  *egress.Policy
	Records func(network.Record) // called with the network's records, from many goroutines concurrently; can be nil
}

// Machine is a started machine. Its agent is connected, and has the identity and clock of this
// start. Machine is safe for concurrent use.
type Machine struct {
	ID    string
	Agent *client.Client

	machine machine.Machine
	network *network.Stack // nil if the machine has no network
	own     client.Identity
	folder  *folder
	phases  []machine.Phase
	ttl     *time.Timer
	slot    *time.Timer // releases its start slot
	done    chan struct{}

	mu     sync.Mutex
	reason error
	closed bool
}

// NewID returns a random ID for a machine.
func NewID() string {
	var b [8]byte
	rand.Read(b[:])
	return "m-" + hex.EncodeToString(b[:])
}

// Start starts a machine, connects to its agent and renews the machine. If Start fails or ctx is
// cancelled during Start, no resources remain. The caller must call Close.
func Start(ctx context.Context, cfg Config) (*Machine, error) {
	f, id, err := cfg.folder()
	if err != nil {
		return nil, err
	}
	m := &Machine{ID: id, folder: f, done: make(chan struct{})}
	var storage *machine.Storage
	saved, fresh := "", true
	if cfg.Persistent != nil {
		storage, saved = cfg.Persistent.Storage, cfg.Persistent.Saved
		fresh = storage.FreshRoot() && saved == "" || cfg.Persistent.Copied // computed before the driver creates the root
	}
	began := time.Now()
	slot := takeSlot(ctx, cfg.Dirs.StartSlots())
	defer func() { // if the machine has started, the timer m.slot releases the slot
		if m.slot == nil {
			slot.Release()
		}
	}()
	m.phases = []machine.Phase{{Name: "turn", Duration: time.Since(began)}}
	link, err := m.connect(cfg.Network)
	if err != nil {
		f.remove()
		return nil, err
	}
	if m.machine, err = cfg.Driver.Start(ctx, machine.Spec{
		ID: id, Dir: f.path, Root: cfg.Root, VCPUs: cfg.VCPUs, MemMiB: cfg.MemMiB, Storage: storage, Network: link, Saved: saved, Progress: cfg.Progress,
	}); link != nil {
		link.Link.Close()
	}
	if err != nil {
		m.disconnect()
		f.remove()
		return nil, err
	}
	m.phases = append(m.phases, m.machine.Phases()...)
	if cfg.Persistent != nil && cfg.Persistent.Started != nil {
		if err := cfg.Persistent.Started(m.machine); err != nil {
			m.machine.Close()
			m.disconnect()
			f.remove()
			return nil, fault.Wrap(err, "start machine", id)
		}
	}
	if err = m.reach(ctx, cfg.Persistent, fresh, link); err == nil && saved == "" && cfg.Driver.Features().Isolated {
		err = m.install(ctx, cfg.HostNetwork)
	}
	if err != nil {
		err = m.causeOf(err)
		m.machine.Close()
		m.disconnect()
		f.remove()
		return nil, fault.Wrap(err, "start machine", id)
	}
	if cfg.TTL > 0 {
		m.ttl = time.AfterFunc(cfg.TTL, func() {
			m.end(fault.New(fault.Timeout, "run machine", id, "its time to live of %s is over", cfg.TTL).WithHint("use a larger --ttl-seconds"))
		})
	}
	m.slot = time.AfterFunc(slotGrace, slot.Release)
	go m.watch(slot)
	return m, nil
}

// connect creates the network. It returns the machine's end of the link, or nil if the machine has
// no network.
func (m *Machine) connect(cfg *Network) (*machine.Network, error) {
	if cfg == nil {
		return nil, nil
	}
	near, far, err := machine.NewLink()
	if err != nil {
		return nil, fault.Wrap(err, "make network of machine", m.ID)
	}
	plan := network.NewPlan(m.ID)
	if m.network, err = network.Start(network.Config{Link: near, Plan: plan, Hostname: m.ID, Policy: cfg.Policy, Records: cfg.Records}); err != nil {
		far.Close()
		return nil, fault.Wrap(err, "make network of machine", m.ID)
	}
	return &machine.Network{
		Link: far, MAC: plan.MAC, GatewayMAC: plan.GatewayMAC, Address: plan.Address, Gateway: plan.Gateway, Address6: plan.Address6, Gateway6: plan.Gateway6,
		MTU: network.MTU,
	}, nil
}

func (m *Machine) disconnect() {
	if m.network != nil {
		m.network.Close()
	}
}

// identity returns a random identity for a temporary machine. For a persistent machine it always
// returns the same identity.
func identity(id string, keep *Persistent) client.Identity {
	if keep == nil {
		return client.NewIdentity(id)
	}
	sum := sha256.Sum256([]byte("machine-id of " + id))
	return client.Identity{MachineID: hex.EncodeToString(sum[:16]), Hostname: id}
}

// reach connects to the agent, renews the machine and mounts its storage.
func (m *Machine) reach(ctx context.Context, keep *Persistent, fresh bool, link *machine.Network) error {
	ctx, cancel := context.WithTimeoutCause(ctx, agentPatience, errors.New("its agent does not answer"))
	defer cancel()
	// If the machine ends, stop waiting for its agent.
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-m.machine.Done():
			stop(errors.New("it ended"))
		case <-ctx.Done():
		}
	}()
	began := time.Now()
	c, err := client.Dial(ctx, m.machine.Link())
	if err != nil {
		return err
	}
	c.Share(m.machine.SharedBuffer())
	reached := time.Now()
	own := identity(m.ID, keep)
	own.FreshRoot = fresh
	if link != nil {
		own.Network = guestNetwork(link)
	}
	m.own = own
	renew := c.Renew
	if keep != nil && keep.Saved != "" {
		renew, own.Held = c.RenewPrecisely, true
	}
	if err := renew(ctx, own); err != nil {
		c.Close()
		return err
	}
	renewed := time.Now()
	m.phases = append(m.phases, machine.Phase{Name: "reach", Duration: reached.Sub(began)}, machine.Phase{Name: "renew", Duration: renewed.Sub(reached)})
	if keep != nil {
		if _, err := c.Mount(ctx, client.Mounts{Root: true, Volume: true}); err != nil {
			c.Close()
			return err
		}
		m.phases = append(m.phases, machine.Phase{Name: "mount", Duration: time.Since(renewed)})
	}
	m.Agent = c
	return nil
}

// guestNetwork returns the network configuration that the agent sets in the machine.
func guestNetwork(n *machine.Network) *client.Network {
	return &client.Network{
		MAC: n.MAC, Address: n.Address, Gateway: n.Gateway, Address6: n.Address6, Gateway6: n.Gateway6, DNS: []netip.Addr{n.Gateway}, MTU: n.MTU,
	}
}

// causeOf returns the reason why the machine ended, or err if the machine still runs. The reason is
// more precise than a later error.
func (m *Machine) causeOf(err error) error {
	select {
	case <-m.machine.Done():
		if reason := m.machine.Err(); reason != nil {
			return reason
		}
	case <-time.After(50 * time.Millisecond): // the driver sees the end of a machine a moment after its link breaks
	}
	return err
}

func (m *Machine) watch(slot *flock.Lock) {
	<-m.machine.Done()
	m.disconnect()
	m.slot.Stop()
	slot.Release()
	m.mu.Lock()
	if m.reason == nil && !m.closed {
		m.reason = m.machine.Err()
	}
	m.mu.Unlock()
	close(m.done)
}

// end ends the machine and records the reason.
func (m *Machine) end(reason error) {
	m.mu.Lock()
	if m.reason == nil && !m.closed {
		m.reason = reason
	}
	m.mu.Unlock()
	m.machine.Close()
}

// Renew sets the clock of a machine that was paused, and gives it fresh entropy.
func (m *Machine) Renew(ctx context.Context) error { return m.Agent.RenewPrecisely(ctx, m.own) }

// Resume continues the programs of a saved machine. None of them runs before Resume.
func (m *Machine) Resume(ctx context.Context) error {
	if w, ok := m.machine.(machine.Thawer); ok {
		return w.Thaw(ctx)
	}
	_, err := m.Agent.Thaw(ctx)
	return err
}

// Phases returns the steps of the start.
func (m *Machine) Phases() []machine.Phase { return m.phases }

// PID returns the ID of the host process that runs the machine, or 0 if there is none.
func (m *Machine) PID() int { return m.machine.PID() }

// Limits returns why the machine is not limited to its processors and memory, or nil if it is
// limited.
func (m *Machine) Limits() error { return m.machine.Limits() }

// Machine returns the driver's machine, for features that only some drivers have.
func (m *Machine) Machine() machine.Machine { return m.machine }

// Network returns the machine's network, or nil if it has none.
func (m *Machine) Network() *network.Stack { return m.network }

// Done is closed when the machine has ended.
func (m *Machine) Done() <-chan struct{} { return m.done }

// Err returns why the machine ended. Its kind is Timeout if the time to live has expired. Err
// returns nil before Done is closed, and after Close.
func (m *Machine) Err() error {
	select {
	case <-m.done:
	default:
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reason
}

// Close ends the machine even if programs run in it, and removes its folder. Close is idempotent.
func (m *Machine) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	if m.ttl != nil {
		m.ttl.Stop()
	}
	err := m.machine.Close()
	m.Agent.Close()
	<-m.done
	return errors.Join(err, m.folder.remove())
}
