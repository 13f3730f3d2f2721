// Package control manages the sandboxes on the hosts of a control plane, and checks the permissions
// of each request.
//
// A [Control] keeps records in [store.Store] and knows hosts by RPC alone. Only a host knows which
// of its sandboxes run. The record of a sandbox contains its wanted state. Each operation first
// records the wanted state, then calls the host, and then records the host's answer. If this
// process is killed in between, [Control.Reconcile] finishes the operation after the next start. So
// no sandbox is lost, created twice or stuck.
package control

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/gen/host/v1/hostv1connect"
	"github.com/pyro-mcp/pyro/internal/gen/hostagent/v1/hostagentv1connect"
)

// Host is a host of sandboxes, and the client that calls its host agent.
type Host struct {
	Key    string // identifies the state folder of the host, even if the host has another name
	Name   string // unique
	Client HostClient
}

// HostClient calls a host agent.
type HostClient interface {
	hostagentv1connect.HostAgentServiceClient
	hostv1connect.HostServiceClient
}

// Options are the settings of a control plane. Log and Clock have defaults.
type Options struct {
	Store *store.Store
	Hosts []Host // at least one
	Log   *slog.Logger
	Clock func() time.Time
	// HashMemory is the memory that the hash of a password needs, in KiB. 0 means 64 MiB. Tests use
	// less, because the race detector multiplies it.
	HashMemory uint32
}

// Control is a control plane. It is safe for concurrent use.
type Control struct {
	store *store.Store
	log   *slog.Logger
	clock func() time.Time
	hosts map[string]Host // by ID

	hashMemory uint32 // KiB

	mu        sync.Mutex
	locks     map[string]*sandboxLock // locks of the sandboxes with an operation in progress
	followers map[string]*follower    // by ID of the host
	answers   map[string]hostAnswer   // by ID of the host
}

// New returns a control plane with its hosts recorded. It starts nothing.
func New(ctx context.Context, o Options) (*Control, error) {
	c := &Control{store: o.Store, log: o.Log, clock: o.Clock, hosts: map[string]Host{}, locks: map[string]*sandboxLock{}, followers: map[string]*follower{}, answers: map[string]hostAnswer{}}
	if c.log == nil {
		c.log = slog.Default()
	}
	if c.clock == nil {
		c.clock = time.Now
	}
	c.hashMemory = cmp.Or(o.HashMemory, hashMemory)
	for _, h := range o.Hosts {
		known, err := c.store.SeeHost(ctx, h.Key, h.Name, c.clock())
		if err != nil {
			return nil, err
		}
		c.hosts[known.ID] = h
	}
	if len(c.hosts) == 0 {
		return nil, fault.Newf(fault.Invalid, "a control plane needs a host")
	}
	return c, nil
}

// sandboxLock serializes the operations on one sandbox.
type sandboxLock struct {
	held  chan struct{} // has an element while an operation holds the lock.
	users int           // operations that hold the lock or wait for it.
	// after contains arguments for calls of look that wait until the lock is free: the host, by the
	// ID of the sandbox.
	after map[string]string
}

// lock locks a sandbox. It waits while another operation changes the sandbox. The caller must call
// unlock.
func (c *Control) lock(ctx context.Context, id string) (unlock func(), err error) {
	c.mu.Lock()
	l := c.locks[id]
	if l == nil {
		l = &sandboxLock{held: make(chan struct{}, 1)}
		c.locks[id] = l
	}
	l.users++
	c.mu.Unlock()
	select {
	case l.held <- struct{}{}:
		return func() {
			<-l.held
			c.leave(id, l)
		}, nil
	case <-ctx.Done():
		c.leave(id, l)
		return nil, context.Cause(ctx)
	}
}

// tryLock is like lock, but does not wait. If another operation changes the sandbox, ok is false.
// When nobody holds or awaits the lock any more, look is called with the host and the ID later.
func (c *Control) tryLock(id, host, later string) (unlock func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.locks[id]; l != nil {
		if l.after == nil {
			l.after = map[string]string{}
		}
		l.after[later] = host
		return nil, false
	}
	l := &sandboxLock{held: make(chan struct{}, 1), users: 1}
	l.held <- struct{}{}
	c.locks[id] = l
	return func() {
		<-l.held
		c.leave(id, l)
	}, true
}

func (c *Control) leave(id string, l *sandboxLock) {
	c.mu.Lock()
	var after map[string]string
	if l.users--; l.users == 0 {
		delete(c.locks, id)
		after = l.after
	}
	c.mu.Unlock()
	for later, host := range after {
		c.look(host, later)
	}
}

// host returns the host of a sandbox.
func (c *Control) host(b store.Sandbox) (Host, error) {
	h, ok := c.hosts[b.HostID]
	if !ok {
		return Host{}, fault.New(fault.Unavailable, "call the host of sandbox", b.ID, "the host %s belongs to another server", b.HostID).WithHint("call that server")
	}
	return h, nil
}
