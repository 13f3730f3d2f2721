package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"runtime/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

const (
	loadClients = 200
	loadKeys    = 10

	// maxGrowth bounds the growth of the live heap during the load, in bytes. A minute of the load
	// exceeds it if each request leaks 200 bytes.
	maxGrowth = 8 << 20
)

// load is a set of clients that use a server at the same time.
type load struct {
	*world
	client    *http.Client
	keys      []string
	sandboxes []string // sandboxes that all clients can read
	limited   atomic.Int64
	answered  atomic.Int64
	streamed  atomic.Int64 // messages
}

// TestLoad sends the requests of 200 clients at the same time. The only allowed error is 429.
// Afterwards, the memory and the number of goroutines of the server must not have grown.
func TestLoad(t *testing.T) {
	l := newLoad(t)
	l.run(500 * time.Millisecond) // fills pools and caches
	heap, goroutines := l.settle(0)
	l.run(time.Duration(testenv.Rounds(1, 60)) * time.Second)
	after, _ := l.settle(goroutines)
	t.Logf("%d answers, %d times 429, %d messages; the live heap was %d bytes and is %d", l.answered.Load(), l.limited.Load(), l.streamed.Load(), heap, after)
	if after > heap+maxGrowth {
		t.Errorf("the live heap grew from %d to %d bytes", heap, after)
	}
	if l.answered.Load() == 0 { // a busy host may be too slow for messages
		t.Error("the clients got no answers")
	}
	if got := l.host.Statuses(); len(got) != len(l.sandboxes) {
		t.Errorf("the host has %d sandboxes, want %d", len(got), len(l.sandboxes))
	}
	if got, err := l.store.SandboxesOf(t.Context(), l.hostID()); err != nil || len(got) != len(l.sandboxes) {
		t.Errorf("there are %d records, want %d; %v", len(got), len(l.sandboxes), err)
	}

	now, before := time.Now(), l.limited.Load()
	l.server.requests = newLimiter(requestRate, 1, func() time.Time { return now })
	for range 2 {
		l.send(l.keys[0], "GET", "/v1/sandboxes", nil, 200, nil)
	}
	if got := l.limited.Load() - before; got != 1 {
		t.Errorf("the limit of one request refused %d of two requests, want 1", got)
	}
}

func newLoad(t *testing.T) *load {
	l := &load{world: newWorld(t), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: loadClients}}}
	t.Cleanup(l.client.CloseIdleConnections)
	by := control.Actor{Type: store.ActorUser, ID: l.owner, TeamID: l.team}
	for range loadKeys {
		_, text, err := l.control.NewKey(t.Context(), by, "load", nil, time.Time{})
		l.check(err)
		l.keys = append(l.keys, text.Reveal())
	}
	for range 5 {
		l.sandboxes = append(l.sandboxes, l.create().ID)
	}
	return l
}

// run runs the clients for a time.
func (l *load) run(length time.Duration) {
	ctx, cancel := context.WithTimeout(l.t.Context(), length)
	defer cancel()
	var all sync.WaitGroup
	for i := range loadClients {
		use := l.read
		switch i / loadKeys % 10 { // so that each key has clients of each kind
		case 0:
			use = l.follow
		case 1:
			use = l.change
		}
		all.Go(func() {
			for ctx.Err() == nil && !l.t.Failed() {
				use(ctx, l.keys[i%loadKeys])
				select {
				case <-ctx.Done():
				case <-time.After(rand.N(50 * time.Millisecond)):
				}
			}
		})
	}
	all.Wait()
}

// send sends a request and decodes the answer. ok is false if the server refuses it with 429.
func (l *load) send(key, method, path string, in any, want int, out any) (ok bool) {
	var content bytes.Buffer
	if in != nil {
		json.NewEncoder(&content).Encode(in)
	}
	req, err := http.NewRequest(method, l.url+path, &content)
	if err != nil {
		l.t.Error(err)
		return false
	}
	req.Header.Set(keyHeader, key)
	req.Header.Set("Content-Type", "application/json")
	r, err := l.client.Do(req)
	if err != nil {
		l.t.Errorf("%s %s: %v", method, path, err)
		return false
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode == want && out != nil {
		err = json.Unmarshal(text, out)
	}
	switch {
	case err != nil:
		l.t.Errorf("%s %s: %v", method, path, err)
	case r.StatusCode == http.StatusTooManyRequests:
		l.refused(r)
	case r.StatusCode != want:
		l.t.Errorf("%s %s: got %d, want %d: %s", method, path, r.StatusCode, want, text)
	default:
		l.answered.Add(1)
		return true
	}
	return false
}

// refused checks an answer with the status 429.
func (l *load) refused(r *http.Response) {
	l.limited.Add(1)
	if wait, err := strconv.Atoi(r.Header.Get("Retry-After")); err != nil || wait < 1 {
		l.t.Errorf("429 with Retry-After %q", r.Header.Get("Retry-After"))
	}
}

// read lists the sandboxes and reads one.
func (l *load) read(_ context.Context, key string) {
	var all []Sandbox
	if l.send(key, "GET", "/v1/sandboxes", nil, 200, &all) && len(all) < len(l.sandboxes) {
		l.t.Errorf("got %d sandboxes, want at least %d", len(all), len(l.sandboxes))
	}
	id := l.sandboxes[rand.IntN(len(l.sandboxes))]
	var b Sandbox
	if l.send(key, "GET", "/v1/capsules/"+id, nil, 200, &b) && b.ID != id {
		l.t.Errorf("got %s, want %s", b.ID, id)
	}
}

// change creates a sandbox, reads it, and deletes it.
func (l *load) change(_ context.Context, key string) {
	var b Sandbox
	if !l.send(key, "POST", "/v1/sandboxes", NewSandbox{}, 201, &b) {
		return
	}
	path := "/v1/sandboxes/" + b.ID
	l.send(key, "GET", path, nil, 200, nil)
	for !l.send(key, "DELETE", path, nil, 204, nil) && !l.t.Failed() {
		time.Sleep(20 * time.Millisecond)
	}
}

// follow reads a stream of events for up to a second. The server must not end it before.
func (l *load) follow(ctx context.Context, key string) {
	ctx, cancel := context.WithTimeout(ctx, rand.N(time.Second))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", l.url+"/v1/events", nil)
	if err != nil {
		l.t.Error(err)
		return
	}
	req.Header.Set(keyHeader, key)
	r, err := l.client.Do(req)
	if err != nil {
		if ctx.Err() == nil {
			l.t.Errorf("stream of events: %v", err)
		}
		return
	}
	defer r.Body.Close()
	switch r.StatusCode {
	case http.StatusOK:
	case http.StatusTooManyRequests:
		l.refused(r)
		return
	default:
		l.t.Errorf("stream of events: got %d", r.StatusCode)
		return
	}
	lines := bufio.NewScanner(r.Body)
	for lines.Scan() {
		if bytes.HasPrefix(lines.Bytes(), []byte("data: ")) {
			l.streamed.Add(1)
		}
	}
	if ctx.Err() == nil {
		l.t.Errorf("the server ended a stream of events: %v", lines.Err())
	}
}

// settle waits until the requests have ended, and returns the live heap in bytes and the number of
// goroutines. The parameter most is the maximum number of goroutines; 0 means no limit.
func (l *load) settle(most int) (heap uint64, goroutines int) {
	l.t.Helper()
	l.client.CloseIdleConnections()
	last := 0
	for deadline := time.Now().Add(testenv.Patience); ; time.Sleep(50 * time.Millisecond) {
		l.client.CloseIdleConnections() // a connection becomes idle a moment after its answer
		goroutines = runtime.NumGoroutine()
		if goroutines <= most || most == 0 && goroutines == last {
			break
		}
		if time.Now().After(deadline) {
			var stacks bytes.Buffer
			pprof.Lookup("goroutine").WriteTo(&stacks, 1)
			l.t.Fatalf("there are %d goroutines, want at most %d: %s", goroutines, most, stacks.Bytes())
		}
		last = goroutines
	}
	for range 3 { // pools keep objects until the second collection
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, goroutines
}
