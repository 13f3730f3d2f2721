package control

import (
	"context"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"connectrpc.com/connect"

	hostv1 "github.com/pyro-mcp/pyro/internal/gen/host/v1"
)

// Delays before another attempt. Each delay is twice as long as the previous delay.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// maxCompared is the maximum number of sandboxes of a host that are compared at the same time.
const maxCompared = 8

// Follow keeps the records up to date with each host until ctx is done. When it connects to a host,
// it reconciles all sandboxes of the host. Then it records each change that the host reports. If
// nothing changes, it makes no calls.
func (c *Control) Follow(ctx context.Context) {
	var all sync.WaitGroup
	for id, h := range c.hosts {
		f := &follower{Control: c, id: id, host: h, dirty: map[string]*hostv1.WatchResponse{}, failures: map[string]int{}, wake: make(chan struct{}, 1)}
		c.mu.Lock()
		c.followers[id] = f
		c.mu.Unlock()
		all.Go(func() { f.run(ctx) })
	}
	all.Wait()
}

// templatesOf is a special ID. If it is marked, the follower finishes interrupted requests for
// templates.
const templatesOf = ""

// look lets the follower of a host compare a sandbox with its record soon. Call it if an operation
// may have left the sandbox in another state than the recorded state. If no follower runs, look
// does nothing.
func (c *Control) look(host, id string) {
	c.mu.Lock()
	f := c.followers[host]
	c.mu.Unlock()
	if f != nil {
		f.mark(id, nil)
	}
}

// follower follows one host.
type follower struct {
	*Control
	id   string
	host Host
	wake chan struct{} // has an element if dirty has one

	mu       sync.Mutex
	dirty    map[string]*hostv1.WatchResponse // sandboxes to compare, with the states that the host reported; nil: unknown
	failures map[string]int                   // failed attempts in a row, by ID of the sandbox
}

// mark adds a sandbox to the set of sandboxes to compare with their records.
func (f *follower) mark(id string, state *hostv1.WatchResponse) {
	f.mu.Lock()
	f.dirty[id] = state
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *follower) run(ctx context.Context) {
	for failed := 0; ; failed++ {
		synced, err := f.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		f.answered(f.id, err)
		if synced {
			failed = 0
		}
		f.log.Warn("the stream of a host has ended", "host", f.host.Name, "error", err)
		select {
		case <-time.After(delay(failed)):
		case <-ctx.Done():
			return
		}
	}
}

// delay returns the delay before the next attempt. It grows with the number of failures, and is
// random so that many control planes do not call a host at the same time.
func delay(failures int) time.Duration {
	d := min(firstRetry<<min(failures, 10), lastRetry)
	return d/2 + rand.N(d/2)
}

// follow follows the host until the stream breaks. synced reports whether the host has sent all
// states.
func (f *follower) follow(ctx context.Context) (synced bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := f.host.Client.Watch(ctx, connect.NewRequest(&hostv1.WatchRequest{}))
	if err != nil {
		return false, FromHost(err)
	}
	defer stream.Close()
	there, err := untilSynced(stream)
	if err != nil {
		return false, err
	}
	f.answered(f.id, nil)
	ids, err := f.outOfSync(ctx, f.id, there)
	if err != nil {
		return false, err
	}
	f.mark(templatesOf, nil)
	for _, id := range ids {
		f.mark(id, nil)
	}
	var worker sync.WaitGroup
	defer worker.Wait()
	defer cancel()
	worker.Go(func() { f.work(ctx) })
	for stream.Receive() {
		f.mark(stream.Msg().SandboxId, stream.Msg())
	}
	if err := stream.Err(); err != nil {
		return true, FromHost(err)
	}
	return true, FromHost(io.EOF)
}

// work compares marked sandboxes until ctx is done.
func (f *follower) work(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	free := make(chan struct{}, maxCompared)
	for {
		select {
		case <-f.wake:
		case <-ctx.Done():
			return
		}
		f.mu.Lock()
		batch := f.dirty
		f.dirty = map[string]*hostv1.WatchResponse{}
		f.mu.Unlock()
		for id, state := range batch {
			select {
			case free <- struct{}{}:
			case <-ctx.Done():
				return
			}
			running.Go(func() {
				defer func() { <-free }()
				f.check(ctx, id, state)
			})
		}
	}
}

// check compares a sandbox with its record. If it fails, it tries again later.
func (f *follower) check(ctx context.Context, id string, state *hostv1.WatchResponse) {
	var err error
	if id == templatesOf {
		err = f.reconcileTemplates(ctx, f.id, f.host)
	} else {
		err = f.compare(ctx, f.id, f.host, id, state)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil || ctx.Err() != nil {
		delete(f.failures, id)
		return
	}
	wait := delay(f.failures[id])
	f.failures[id]++
	f.log.Error("compare the records with a host", "host", f.host.Name, "sandbox", id, "error", err, "retry_in", wait)
	time.AfterFunc(wait, func() {
		if ctx.Err() == nil {
			f.mark(id, nil)
		}
	})
}
