package hostagent

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/gen/hostagent/v1/hostagentv1connect"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// fakes are machines that are none.
type fakes struct {
	mu      sync.Mutex
	made    map[string]Spec
	stopped map[string]bool
	paused  map[string]bool
	kept    map[string]string     // what is said of those that are templates
	keeping func(flat bool) error // called while one becomes a template
	turning func(id string) error // called while one is paused or resumed
	count   int
	fail    error             // of Create
	unknown error             // of Paused
	stays   error             // of Delete
	during  func(Spec)        // called while one is made
	run     func(io.Writer)   // what programs print
	ran     []client.Command  // programs, as they were told
	written map[string][]byte // by path
	usage   func(context.Context) (remote.Usage, error)
	zeros   map[string]int64 // the sizes of files of zeros, by path
	failed  chan error       // what became of writes
	shells  []*fakeShell
}

func newFakes() *fakes {
	return &fakes{
		made: map[string]Spec{}, stopped: map[string]bool{}, paused: map[string]bool{}, kept: map[string]string{}, written: map[string][]byte{},
		failed: make(chan error, 8),
	}
}

func (f *fakes) Create(_ context.Context, spec Spec) (Made, error) {
	if f.during != nil {
		f.during(spec)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return Made{}, f.fail
	}
	f.count++
	id := "ws-" + spec.SandboxID
	f.made[id] = spec
	return Made{id, "gvisor"}, nil
}

func (f *fakes) Delete(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stays != nil {
		return f.stays
	}
	if _, ok := f.made[id]; !ok {
		return fault.Newf(fault.NotFound, "there is none")
	}
	delete(f.made, id)
	return nil
}

func (f *fakes) Running(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.made[id]
	return ok && !f.stopped[id] && !f.paused[id]
}

func (f *fakes) Paused(_ context.Context, id string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.paused[id], f.unknown
}

func (f *fakes) Pause(_ context.Context, id string) error  { return f.turn(id, true) }
func (f *fakes) Resume(_ context.Context, id string) error { return f.turn(id, false) }

func (f *fakes) turn(id string, pause bool) error {
	if f.turning != nil {
		if err := f.turning(id); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped[id] {
		return fault.Newf(fault.Precondition, "it is stopped")
	}
	f.paused[id] = pause
	return nil
}

func (f *fakes) MadeFor(_ context.Context, making string) (ids []string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, spec := range f.made {
		if spec.Making == making {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (f *fakes) Keep(_ context.Context, id string, flat bool, about func(int64) string) error {
	if !flat {
		if err := f.turn(id, true); err != nil {
			return err
		}
	}
	if f.keeping != nil {
		if err := f.keeping(flat); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept[id] = about(1 << 20)
	delete(f.made, id)
	return nil
}

func (f *fakes) Settle(context.Context, string) error { return nil }

func (f *fakes) Kept(context.Context) (all []Kept, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, about := range f.kept {
		all = append(all, Kept{id, about})
	}
	return all, nil
}

func (f *fakes) Forget(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.kept, id)
	return nil
}

func (f *fakes) Connect(_ context.Context, id string) (Machine, error) {
	if !f.Running(id) {
		return nil, fault.Newf(fault.Precondition, "it does not run")
	}
	return fake{f}, nil
}

func (f *fakes) ids() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.made)
}

// fake is a connection to one of them.
type fake struct{ *fakes }

func (f fake) Run(_ context.Context, c client.Command, stdout, _ io.Writer) (remote.Exit, error) {
	if c.Started != nil {
		c.Started(7)
	}
	f.mu.Lock()
	f.ran = append(f.ran, c)
	f.mu.Unlock()
	if f.run != nil {
		f.run(stdout)
	}
	return remote.Exit{Exit: client.Exit{Code: 3}}, nil
}

func (f fake) ReadMachineFile(_ context.Context, path string, to io.Writer) error {
	f.mu.Lock()
	content, ok := f.written[path]
	size, sparse := f.zeros[path]
	f.mu.Unlock()
	from := io.Reader(bytes.NewReader(content))
	if sparse {
		from = io.LimitReader(zeros{}, size)
	} else if !ok {
		return fault.New(fault.NotFound, "read", path, "there is nothing")
	}
	_, err := io.CopyBuffer(to, struct{ io.Reader }{from}, make([]byte, 256<<10)) // as a real connection copies
	return err
}

// zeros is a file of zeros without an end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func (f fake) WriteMachineFile(_ context.Context, path string, from io.Reader) error {
	content, err := io.ReadAll(from)
	f.failed <- err
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.written[path] = content
	return nil
}

func (f fake) RemoveMachinePath(context.Context, string) error { return nil }
func (f fake) MakeMachineFolder(context.Context, string) error { return nil }
func (f fake) ListMachine(_ context.Context, _ string, _ int, each func(listing.Entry) error) error {
	return each(listing.Entry{Attributes: listing.Attributes{Kind: listing.Folder}})
}
func (f fake) Usage(ctx context.Context) (remote.Usage, error) {
	if f.usage != nil {
		return f.usage(ctx)
	}
	return remote.Usage{MemBytes: 1 << 20}, nil
}
func (f fake) Close() error { return nil }

// quiet drops what is logged.
var quiet = slog.New(slog.DiscardHandler)

// open opens a host agent on a folder, with machines that are none.
func open(t *testing.T, folder string, m Machines, limits Limits) *Agent {
	t.Helper()
	a, err := Open(t.Context(), Options{Folder: folder, Machines: m, Limits: limits, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

const token = "a-token-of-some-length"

// serve serves a host agent on a loopback address, and gives that.
func serve(t *testing.T, a *Agent, s Serving) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Listener = l
	if s.TLS == nil {
		s.Token = secret.New(token)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Serve(ctx, s) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// shown adds the token to all that a client sends.
type shown struct{ http.RoundTripper }

func (s shown) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return s.RoundTripper.RoundTrip(r)
}

// plain is the way of clients over HTTP/2 without TLS, to the end of the test.
func plain(t *testing.T) *http.Transport {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// dial makes a client of each protocol.
func dial(t *testing.T, address string) map[string]hostagentv1connect.HostAgentServiceClient {
	t.Helper()
	c := &http.Client{Transport: shown{plain(t)}}
	return map[string]hostagentv1connect.HostAgentServiceClient{
		"connect":  hostagentv1connect.NewHostAgentServiceClient(c, "http://"+address),
		"grpc":     hostagentv1connect.NewHostAgentServiceClient(c, "http://"+address, connect.WithGRPC()),
		"grpc-web": hostagentv1connect.NewHostAgentServiceClient(c, "http://"+address, connect.WithGRPCWeb()),
	}
}
