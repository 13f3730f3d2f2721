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
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/gen/host/v1/hostv1connect"
	"github.com/pyro-mcp/pyro/internal/gen/hostagent/v1/hostagentv1connect"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// fakes implements Machines without real machines.
type fakes struct {
	mu         sync.Mutex
	made       map[string]Spec
	stopped    map[string]bool
	paused     map[string]bool
	records    map[string]string     // records of templates
	making     func(flat bool) error // called by MakeTemplate.
	transition func(id string) error // called by Pause and Resume.
	forked     []Fork                // the arguments of Fork
	count      int
	createErr  error             // error that Create returns.
	pausedErr  error             // error that Paused returns.
	deleteErr  error             // error that Delete returns.
	during     func(Spec)        // called by Create.
	asked      func(id string)   // called by Running.
	run        func(io.Writer)   // writes the output of programs.
	ran        []program.Command // commands that ran.
	files      map[string][]byte // content by path.
	usage      func(context.Context) (workspace.Usage, error)
	zeros      map[string]int64 // sizes of files that contain only zeros, by path.
	failed     chan error       // results of file writes.
	shells     []*fakeShell
	dialed     net.Listener // the port of all machines; nil: nothing listens.
	watched    []string     // the folders of the last call of WatchFolders.
	folders    chan uint64  // what WatchFolders reports.
}

func newFakes() *fakes {
	return &fakes{
		made: map[string]Spec{}, stopped: map[string]bool{}, paused: map[string]bool{}, records: map[string]string{}, files: map[string][]byte{},
		failed: make(chan error, 8), folders: make(chan uint64),
	}
}

func (f *fakes) Create(_ context.Context, spec Spec) (Created, error) {
	if f.during != nil {
		f.during(spec)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.createErr != nil {
		return Created{}, f.createErr
	}
	f.count++
	id := "ws-" + spec.SandboxID
	f.made[id] = spec
	return Created{id, "gvisor"}, nil
}

func (f *fakes) Fork(ctx context.Context, id string, fork Fork, spec Spec) (Created, error) {
	f.mu.Lock()
	_, ok := f.made[id]
	f.forked = append(f.forked, fork)
	f.mu.Unlock()
	if !ok {
		return Created{}, fault.Newf(fault.NotFound, "there is none")
	}
	return f.Create(ctx, spec)
}

func (f *fakes) Delete(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.deleteErr != nil {
		return f.deleteErr
	}
	if _, ok := f.made[id]; !ok {
		return fault.Newf(fault.NotFound, "there is none")
	}
	delete(f.made, id)
	delete(f.paused, id)
	delete(f.stopped, id)
	return nil
}

func (f *fakes) Running(id string) bool {
	if f.asked != nil {
		f.asked(id)
	}
	return f.running(id)
}

func (f *fakes) running(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.made[id]
	return ok && !f.stopped[id] && !f.paused[id]
}

func (f *fakes) AwaitEnd(ctx context.Context, id string) error {
	for f.running(id) {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (f *fakes) Paused(_ context.Context, id string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.paused[id], f.pausedErr
}

func (f *fakes) Pause(_ context.Context, id string) error  { return f.setPaused(id, true) }
func (f *fakes) Resume(_ context.Context, id string) error { return f.setPaused(id, false) }

func (f *fakes) setPaused(id string, pause bool) error {
	if f.transition != nil {
		if err := f.transition(id); err != nil {
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

func (f *fakes) FindByCreation(_ context.Context, creationID string) (ids []string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, spec := range f.made {
		if spec.CreationID == creationID {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (f *fakes) MakeTemplate(_ context.Context, id string, flat bool, record func(int64) string) error {
	if !flat {
		if err := f.setPaused(id, true); err != nil {
			return err
		}
	}
	if f.making != nil {
		if err := f.making(flat); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records[id] = record(1 << 20)
	delete(f.made, id)
	return nil
}

func (f *fakes) EndSource(context.Context, string) error { return nil }

func (f *fakes) Templates(context.Context) (all []Template, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, record := range f.records {
		all = append(all, Template{id, record})
	}
	return all, nil
}

func (f *fakes) DeleteTemplate(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.records, id)
	return nil
}

func (f *fakes) Connect(_ context.Context, id string) (Machine, error) {
	if !f.running(id) {
		return nil, fault.Newf(fault.Precondition, "it is not running")
	}
	return fake{f}, nil
}

func (f *fakes) DialPort(ctx context.Context, id string, _ int) (net.Conn, error) {
	if f.dialed == nil || !f.running(id) {
		return nil, fault.Newf(fault.Unavailable, "connection refused")
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", f.dialed.Addr().String())
}

func (f *fakes) WatchFolders(ctx context.Context, id string, paths []string, changed func(uint64) error) error {
	if !f.running(id) {
		return fault.Newf(fault.Precondition, "it is not running")
	}
	f.mu.Lock()
	f.watched = paths
	f.mu.Unlock()
	for {
		select {
		case folders := <-f.folders:
			if err := changed(folders); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (f *fakes) ids() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.made)
}

// fakeProcess is a process with the PID 7.
type fakeProcess struct{ program.Process }

func (fakeProcess) PID() int { return 7 }

// fake implements Machine.
type fake struct{ *fakes }

func (f fake) Run(_ context.Context, c program.Command, to program.Attach) (workspace.Exit, error) {
	if to.Started != nil {
		to.Started(fakeProcess{})
	}
	f.mu.Lock()
	f.ran = append(f.ran, c)
	f.mu.Unlock()
	if f.run != nil {
		f.run(to.Stdout)
	}
	return workspace.Exit{Exit: program.Exit{Code: 3}}, nil
}

func (f fake) ReadMachineFile(_ context.Context, path string, to io.Writer) error {
	f.mu.Lock()
	content, ok := f.files[path]
	size, sparse := f.zeros[path]
	f.mu.Unlock()
	from := io.Reader(bytes.NewReader(content))
	if sparse {
		from = io.LimitReader(zeros{}, size)
	} else if !ok {
		return fault.New(fault.NotFound, "read", path, "there is nothing")
	}
	_, err := io.CopyBuffer(to, struct{ io.Reader }{from}, make([]byte, 256<<10)) // copy in chunks, as a real connection does
	return err
}

// zeros is a reader of endless zeros.
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
	f.files[path] = content
	return nil
}

func (f fake) RemoveMachinePath(context.Context, string) error { return nil }
func (f fake) MakeMachineFolder(context.Context, string) error { return nil }
func (f fake) RenameMachinePath(_ context.Context, from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	content, ok := f.files[from]
	switch _, taken := f.files[to]; {
	case !ok:
		return fault.New(fault.NotFound, "rename", from, "no such file or directory")
	case taken:
		return fault.New(fault.Exists, "rename", from, "it already exists").WithHint("choose another name")
	}
	delete(f.files, from)
	f.files[to] = content
	return nil
}
func (f fake) ListMachine(_ context.Context, _ string, _ int, each func(listing.Entry) error) error {
	return each(listing.Entry{Attributes: listing.Attributes{Kind: listing.Folder}})
}
func (f fake) Usage(ctx context.Context) (workspace.Usage, error) {
	if f.usage != nil {
		return f.usage(ctx)
	}
	return workspace.Usage{MemBytes: 1 << 20}, nil
}
func (f fake) Close() error { return nil }

// quiet is a logger that discards everything.
var quiet = slog.New(slog.DiscardHandler)

// open opens a host agent that uses the given machines.
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

// serve serves a host agent on a loopback address and returns the address.
func serve(t *testing.T, a *Agent, s ServeOptions) string {
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

// withToken adds the token to all requests.
type withToken struct{ http.RoundTripper }

func (s withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return s.RoundTripper.RoundTrip(r)
}

// plain returns a transport for HTTP/2 without TLS.
func plain(t *testing.T) *http.Transport {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// dial returns one client for each protocol.
func dial(t *testing.T, address string) map[string]hostagentv1connect.HostAgentServiceClient {
	t.Helper()
	c := &http.Client{Transport: withToken{plain(t)}}
	return map[string]hostagentv1connect.HostAgentServiceClient{
		"connect":  hostagentv1connect.NewHostAgentServiceClient(c, "http://"+address),
		"grpc":     hostagentv1connect.NewHostAgentServiceClient(c, "http://"+address, connect.WithGRPC()),
		"grpc-web": hostagentv1connect.NewHostAgentServiceClient(c, "http://"+address, connect.WithGRPCWeb()),
	}
}

// hostClient returns a client of HostService over gRPC.
func hostClient(t *testing.T, address string) hostv1connect.HostServiceClient {
	return hostv1connect.NewHostServiceClient(&http.Client{Transport: withToken{plain(t)}}, "http://"+address, connect.WithGRPC())
}

// stop ends a machine.
func (f *fakes) stop(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped[id] = true
}
