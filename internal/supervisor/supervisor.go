// Package supervisor owns machines: the folder of each, the link to its agent, its time to live and its end.
//
// Everything of a machine is in its folder or dies with its owner. The owner holds a lock on the folder; when it has died without tidying up, the
// next pyro finds the folder unlocked and tidies for it (Sweep).
package supervisor

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
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
)

// agentPatience bounds how long a started machine's agent may take to answer and to be renewed.
const agentPatience = 30 * time.Second

// Config says what machine to own.
type Config struct {
	Dirs     dirs.Dirs
	Driver   machine.Driver
	Root     machine.Root
	VCPUs    int
	MemMiB   int
	TTL      time.Duration // the machine is ended when it is over; 0: never
	Progress progress.Func

	Network *Network // nil: the machine has none

	Keep *Kept // nil: nothing of the machine outlives it
}

// Kept is what a machine has that outlives it.
type Kept struct {
	ID      string           // of the machine, and its host name: always the same
	Folder  string           // the machine's own while it runs; the caller's, who has locked it, and whatever is in it is removed
	Storage *machine.Storage // whose volume is mounted when Start returns
	Memory  string           // what another machine was saved as, from which this one goes on (machine.Spec.Saved) once Wake is called; empty: it starts anew
	Copied  bool             // there may be another that has gone on from Memory: what must be one machine's alone is removed

	Started func(machine.Machine) error // is called before anything of the storage is mounted; may be nil
}

// Network is what a machine may reach. The driver must have machine.Features.Network.
type Network struct {
	Policy  *egress.Policy
	Records func(network.Record) // is told what it does, from many goroutines at once; may be nil
}

// Machine is a started machine whose agent has been reached and renewed. It is safe for concurrent use.
type Machine struct {
	ID    string
	Agent *client.Client

	machine machine.Machine
	network *network.Stack // nil: it has none
	own     client.Identity
	folder  *folder
	phases  []machine.Phase
	ttl     *time.Timer
	turn    *time.Timer // ends its turn
	done    chan struct{}

	mu     sync.Mutex
	reason error
	closed bool
}

// NewID makes the id of a machine: random, so that no two of them are ever the same.
func NewID() string {
	var b [8]byte
	rand.Read(b[:])
	return "m-" + hex.EncodeToString(b[:])
}

// Start starts a machine, reaches its agent and renews it. Cancelling ctx during Start leaves nothing behind. The caller must Close.
func Start(ctx context.Context, cfg Config) (*Machine, error) {
	f, id, err := cfg.folder()
	if err != nil {
		return nil, err
	}
	m := &Machine{ID: id, folder: f, done: make(chan struct{})}
	var storage *machine.Storage
	memory, fresh := "", true
	if cfg.Keep != nil {
		storage, memory = cfg.Keep.Storage, cfg.Keep.Memory
		fresh = storage.FreshRoot() && memory == "" || cfg.Keep.Copied // the start makes it
	}
	began := time.Now()
	turn := takeTurn(ctx, cfg.Dirs.Turns())
	defer func() { // what failed is gone; what did not goes on as busily for a moment
		if m.turn == nil {
			turn.Release()
		}
	}()
	m.phases = []machine.Phase{{Name: "turn", Duration: time.Since(began)}}
	link, err := m.connect(cfg.Network)
	if err != nil {
		f.remove()
		return nil, err
	}
	if m.machine, err = cfg.Driver.Start(ctx, machine.Spec{
		ID: id, Dir: f.path, Root: cfg.Root, VCPUs: cfg.VCPUs, MemMiB: cfg.MemMiB, Storage: storage, Network: link, Saved: memory, Progress: cfg.Progress,
	}); link != nil {
		link.Link.Close()
	}
	if err != nil {
		m.disconnect()
		f.remove()
		return nil, err
	}
	m.phases = append(m.phases, m.machine.Phases()...)
	if cfg.Keep != nil && cfg.Keep.Started != nil {
		if err := cfg.Keep.Started(m.machine); err != nil {
			m.machine.Close()
			m.disconnect()
			f.remove()
			return nil, fault.Wrap(err, "start machine", id)
		}
	}
	if err := m.reach(ctx, cfg.Keep, fresh, link); err != nil {
		err = m.because(err)
		m.machine.Close()
		m.disconnect()
		f.remove()
		return nil, fault.Wrap(err, "start machine", id)
	}
	if cfg.TTL > 0 {
		m.ttl = time.AfterFunc(cfg.TTL, func() {
			m.end(fault.New(fault.Timeout, "run machine", id, "its time to live of %s is over", cfg.TTL).WithHint("--ttl-seconds gives it longer"))
		})
	}
	m.turn = time.AfterFunc(turnGrace, turn.Release)
	go m.watch(turn)
	return m, nil
}

// folder makes the machine's folder, and gives its id.
func (cfg Config) folder() (*folder, string, error) {
	if cfg.Keep == nil {
		id := NewID()
		f, err := newFolder(cfg.Dirs.Machines(), id)
		return f, id, err
	}
	path := cfg.Keep.Folder
	if err := errors.Join(os.RemoveAll(path), os.MkdirAll(path, 0o700)); err != nil {
		return nil, "", fault.Wrap(err, "make folder of machine", cfg.Keep.ID)
	}
	return &folder{path: path}, cfg.Keep.ID, nil
}

// connect makes the network that a machine is to have, and gives the machine's end of it; nil where it is to have none.
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

// identity is a new one for a machine that is thrown away, and always the same for one that comes back.
func identity(id string, keep *Kept) client.Identity {
	if keep == nil {
		return client.NewIdentity(id)
	}
	sum := sha256.Sum256([]byte("machine-id of " + id))
	return client.Identity{MachineID: hex.EncodeToString(sum[:16]), Hostname: id}
}

// reach dials the agent, renews the machine, mounts what it keeps, and notes what it took.
func (m *Machine) reach(ctx context.Context, keep *Kept, fresh bool, link *machine.Network) error {
	ctx, cancel := context.WithTimeoutCause(ctx, agentPatience, errors.New("its agent does not answer"))
	defer cancel()
	// A machine that dies while it is reached must not be waited for.
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
	c.Share(m.machine.Window())
	reached := time.Now()
	own := identity(m.ID, keep)
	own.FreshRoot = fresh
	if link != nil {
		own.Network = seenFromInside(link)
	}
	m.own = own
	renew := c.Renew
	if keep != nil && keep.Memory != "" {
		renew, own.Held = c.RenewClosely, true
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

// seenFromInside is a link as the machine's own kernel is told it.
func seenFromInside(n *machine.Network) *client.Network {
	return &client.Network{
		MAC: n.MAC, Address: n.Address, Gateway: n.Gateway, Address6: n.Address6, Gateway6: n.Gateway6, DNS: []netip.Addr{n.Gateway}, MTU: n.MTU,
	}
}

// because gives the reason of the machine's end where it has ended, which tells more than what failed after it.
func (m *Machine) because(err error) error {
	select {
	case <-m.machine.Done():
		if reason := m.machine.Err(); reason != nil {
			return reason
		}
	case <-time.After(50 * time.Millisecond): // a machine that dies is reaped a moment after its link breaks
	}
	return err
}

func (m *Machine) watch(turn *flock.Lock) {
	<-m.machine.Done()
	m.disconnect()
	m.turn.Stop()
	turn.Release()
	m.mu.Lock()
	if m.reason == nil && !m.closed {
		m.reason = m.machine.Err()
	}
	m.mu.Unlock()
	close(m.done)
}

// end ends the machine for a reason.
func (m *Machine) end(reason error) {
	m.mu.Lock()
	if m.reason == nil && !m.closed {
		m.reason = reason
	}
	m.mu.Unlock()
	m.machine.Close()
}

// Renew gives a machine that stood still the time again.
func (m *Machine) Renew(ctx context.Context) error { return m.Agent.RenewClosely(ctx, m.own) }

// Wake has run what ran in the machine that it goes on from. Until then nothing of that does, so nothing happens that its owner has not taken over.
func (m *Machine) Wake(ctx context.Context) error {
	if w, ok := m.machine.(machine.Waker); ok {
		return w.Wake(ctx)
	}
	_, err := m.Agent.Thaw(ctx)
	return err
}

// Phases are the steps of its start.
func (m *Machine) Phases() []machine.Phase { return m.phases }

// PID is the process on the host that runs the machine, 0 where there is none.
func (m *Machine) PID() int { return m.machine.PID() }

// Limits is nil where the machine can have no more processors and memory than it was given; else it says why it can.
func (m *Machine) Limits() error { return m.machine.Limits() }

// Machine is what the driver gave: for what only some drivers' machines can do.
func (m *Machine) Machine() machine.Machine { return m.machine }

// Network is the machine's network; nil where it has none.
func (m *Machine) Network() *network.Stack { return m.network }

// Done is closed when the machine has ended.
func (m *Machine) Done() <-chan struct{} { return m.done }

// Err says why the machine ended, with kind Timeout where its time to live was over; nil before Done is closed, and after Close.
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

// Close ends the machine, whatever runs in it, and removes its folder. Idempotent.
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

// unlocked begins the name of a folder that its owner has made and not locked yet.
const unlocked = ".new-"

// folder is a machine's own folder, locked by its owner.
type folder struct {
	path string
	lock *flock.Lock
}

func newFolder(machines, id string) (*folder, error) {
	path := filepath.Join(machines, id)
	if err := os.MkdirAll(machines, 0o700); err != nil {
		return nil, fault.Wrap(err, "make folder of machines", machines)
	}
	// Locked before it has its name, so that nobody ever takes it for one whose owner died.
	staged, err := os.MkdirTemp(machines, unlocked)
	if err != nil {
		return nil, fault.Wrap(err, "make folder of machine", id)
	}
	lock, err := flock.TryFolder(staged, flock.Exclusive)
	if err == nil {
		err = os.Rename(staged, path)
	}
	if err != nil {
		os.Remove(staged)
		lock.Release()
		return nil, fault.Wrap(err, "make folder of machine", id)
	}
	return &folder{path, lock}, nil
}

func (f *folder) remove() error {
	err := os.RemoveAll(f.path)
	f.lock.Release()
	return fault.Wrap(err, "remove folder of machine", f.path)
}

// Sweep tidies what owners that died left behind and tells how many folders that were. It is quick where there is nothing.
//
// Processes need no sweeping: those of a machine die with its owner, whose death the kernel tells them.
func Sweep(d dirs.Dirs) (int, error) {
	entries, err := os.ReadDir(d.Machines())
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fault.Wrap(err, "look for dead machines", d.Machines())
	}
	swept := 0
	for _, e := range entries {
		path := filepath.Join(d.Machines(), e.Name())
		if info, err := e.Info(); err != nil || strings.HasPrefix(e.Name(), unlocked) && time.Since(info.ModTime()) < time.Minute {
			continue // its owner is about to lock it
		}
		lock, err := flock.TryFolder(path, flock.Exclusive)
		if err != nil {
			continue // its owner lives, or it is gone
		}
		err = os.RemoveAll(path)
		lock.Release()
		if err != nil {
			return swept, fault.Wrap(err, "remove folder of machine", path)
		}
		swept++
	}
	return swept, nil
}
