package hostagent

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"math/big"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/store"
)

// What a sandbox has where nothing else is said, and the bounds of it.
const (
	defaultVCPUs      = 1
	defaultMemoryMB   = 512
	defaultDiskSizeMB = 5120
	maxVCPUs          = 64
	minMemoryMB       = 128
	maxMemoryMB       = 1 << 20
	minDiskSizeMB     = store.MinDiskMiB
	maxDiskSizeMB     = store.MaxDiskMiB
	maxEnvironment    = 1 << 20 // bytes of all variables
)

// destroyPatience bounds the end of a sandbox, which is not given up when whoever asked for it goes.
const destroyPatience = 2 * time.Minute

// CreateSandbox makes a sandbox and starts it.
func (a *Agent) CreateSandbox(ctx context.Context, req *connect.Request[pb.CreateSandboxRequest]) (*connect.Response[pb.CreateSandboxResponse], error) {
	want, err := a.wanted(req.Msg)
	if err != nil {
		return nil, fault.Wrap(err, "create sandbox", "")
	}
	s, err := a.create(ctx, want)
	if err != nil {
		return nil, err
	}
	status, err := a.status(s)
	if err != nil {
		return nil, fault.Wrap(err, "create sandbox", s.id())
	}
	return connect.NewResponse(&pb.CreateSandboxResponse{SandboxId: s.id(), Status: status, Metadata: metadataOf(s.record())}), nil
}

// wanted is the sandbox that a request asks for, with defaults in their places.
func (a *Agent) wanted(m *pb.CreateSandboxRequest) (r record, err error) {
	r = record{
		SandboxID: m.SandboxId, VCPUs: int(m.Vcpus), MemoryMB: int(m.MemoryMb), DiskSizeMB: int(m.DiskSizeMb), TimeoutSec: int(m.TimeoutSec),
		TeamID: m.TeamId, TemplateID: m.TemplateId, DefaultUser: m.DefaultUser, DefaultEnv: maps.Clone(m.DefaultEnv), CreatedAt: a.options.clock().UTC(), Making: newID(),
	}
	r.LastActive = r.CreatedAt
	if r.SandboxID == "" {
		r.SandboxID = newID()
	}
	if err := checkID(r.SandboxID); err != nil {
		return r, err
	}
	key, err := keyOf(m.TeamId, m.TemplateId, m.Template)
	if err != nil {
		return r, err
	}
	a.mu.Lock()
	t := a.templates[key]
	a.mu.Unlock()
	switch {
	case t != nil:
		r.from(t)
	case key.id != "":
		return r, errNoTemplate(key)
	case key.name != "":
		r.Template, r.Environment = key.name, key.name
	default:
		r.Template, r.Environment = minimal, a.options.Environment
	}
	for _, n := range []struct {
		name               string
		value              *int
		byDefault, low, up int
	}{
		{"vcpus", &r.VCPUs, defaultVCPUs, 1, maxVCPUs},
		{"memory_mb", &r.MemoryMB, defaultMemoryMB, minMemoryMB, maxMemoryMB},
		{"disk_size_mb", &r.DiskSizeMB, defaultDiskSizeMB, minDiskSizeMB, maxDiskSizeMB},
		{"timeout_sec", &r.TimeoutSec, 0, 0, 1<<31 - 1},
	} {
		if *n.value == 0 {
			*n.value = n.byDefault
		}
		if *n.value < n.low || *n.value > n.up {
			return r, fault.Newf(fault.Invalid, "%s is %d: it must be %d to %d", n.name, *n.value, n.low, n.up)
		}
	}
	_, err = variables(r.DefaultEnv)
	return r, err
}

// noUUID is the UUID of zeros.
const noUUID = "00000000000000000000000000000000"

// parseUUID gives the digits of a UUID; of none those of noUUID.
func parseUUID(name, text string) (string, error) {
	digits := strings.ToLower(strings.ReplaceAll(text, "-", ""))
	if text == "" {
		return noUUID, nil
	}
	if len(digits) != len(noUUID) || strings.Trim(digits, "0123456789abcdef") != "" {
		return "", fault.Newf(fault.Invalid, "%s is %q: it must be a UUID", name, fault.Printable(text[:min(len(text), 80)]))
	}
	return digits, nil
}

// newID makes the id of a sandbox as the control plane makes them: 25 digits of base 36.
func newID() string {
	n, _ := rand.Int(rand.Reader, new(big.Int).Exp(big.NewInt(36), big.NewInt(25), nil)) // crypto/rand never fails
	text := n.Text(36)
	return "cl-" + strings.Repeat("0", 25-len(text)) + text
}

func checkID(id string) error { return checkName("sandbox_id", id) }

func checkName(what, name string) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	if name == "" || len(name) > 64 || strings.Trim(name, letters+"._-") != "" || !strings.Contains(letters, name[:1]) {
		return fault.Newf(fault.Invalid, "%s %q is none: letters, digits, \".\", \"_\" and \"-\", at most 64, and first a letter or a digit", what, fault.Printable(name[:min(len(name), 80)]))
	}
	return nil
}

// variables gives an environment as NAME=VALUE, sorted.
func variables(env map[string]string) (all []string, err error) {
	total := 0
	for _, name := range slices.Sorted(maps.Keys(env)) {
		value := env[name]
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return nil, fault.Newf(fault.Invalid, "%q can't be an environment variable", fault.Printable(name[:min(len(name), 80)]))
		}
		if total += len(name) + len(value); total > maxEnvironment {
			return nil, fault.Newf(fault.Invalid, "the environment has more than %d bytes", maxEnvironment)
		}
		all = append(all, name+"="+value)
	}
	return all, nil
}

// create makes a sandbox, or gives the one that is there. When it fails nothing is left.
func (a *Agent) create(ctx context.Context, want record) (*sandbox, error) {
	for {
		a.mu.Lock()
		there := a.sandboxes[want.SandboxID]
		if there == nil {
			break
		}
		a.mu.Unlock()
		done, err := there.change(ctx) // who makes it may be at it
		if err != nil {
			return nil, err
		}
		there.mu.Lock()
		gone := there.gone
		there.mu.Unlock()
		done()
		if !gone {
			return there, nil
		}
	}
	if a.refused {
		a.mu.Unlock()
		return nil, fault.New(fault.Unavailable, "create sandbox", want.SandboxID, "the host agent is ending")
	}
	if want.From != "" && !a.became(want.From) { // it was deleted meanwhile
		a.mu.Unlock()
		return nil, fault.New(fault.NotFound, "create sandbox", want.SandboxID, "template %s was deleted", want.Template)
	}
	if err := a.admit(want); err != nil {
		a.mu.Unlock()
		return nil, fault.Wrap(err, "create sandbox", want.SandboxID)
	}
	s := newSandbox(want, a.options.clock)
	s.changes <- struct{}{}
	a.sandboxes[want.SandboxID] = s
	a.mu.Unlock()
	defer func() { <-s.changes }()
	if err := a.make(ctx, s, want); err != nil {
		return nil, fault.Wrap(err, "create sandbox", want.SandboxID)
	}
	return s, nil
}

// make makes what a sandbox is, whose change is the caller's.
func (a *Agent) make(ctx context.Context, s *sandbox, want record) (err error) {
	var made Made
	defer func() {
		if err == nil {
			return
		}
		if made.ID != "" {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyPatience)
			defer cancel()
			if failed := a.deleteMachine(ctx, record{WorkspaceID: made.ID}); failed != nil {
				s.has(made, want.LastActive) // it is there, and can be destroyed
				err = errors.Join(err, failed)
				return
			}
		}
		err = errors.Join(err, a.removeRecord(want.SandboxID))
		a.forget(s)
	}()
	if err := a.writeRecord(want); err != nil {
		return err
	}
	began := time.Now()
	made, err = a.options.Machines.Create(ctx, Spec{SandboxID: want.SandboxID, Making: want.Making, From: want.From, Environment: want.Environment, VCPUs: want.VCPUs, MemoryMB: want.MemoryMB, DiskSizeMB: want.DiskSizeMB, Named: want.Template != minimal && want.Environment != a.options.Environment})
	if err != nil {
		return err
	}
	if !a.options.Machines.Running(made.ID) {
		return fault.Newf(fault.Unavailable, "its machine ended as soon as it had been made").WithHint("try again")
	}
	want.WorkspaceID, want.Isolation, want.LastActive = made.ID, made.Isolation, a.options.clock().UTC()
	if err := a.writeRecord(want); err != nil {
		return err
	}
	s.has(made, want.LastActive)
	a.watch(s)
	a.options.Log.Info("sandbox created", "sandbox", want.SandboxID, "workspace", made.ID, "isolation", made.Isolation, "ms", time.Since(began).Milliseconds())
	return nil
}

func (a *Agent) forget(s *sandbox) {
	s.mu.Lock()
	s.gone = true
	s.mu.Unlock()
	a.mu.Lock()
	delete(a.sandboxes, s.id())
	a.mu.Unlock()
}

// DestroySandbox removes a sandbox with all that it holds.
func (a *Agent) DestroySandbox(ctx context.Context, req *connect.Request[pb.DestroySandboxRequest]) (*connect.Response[pb.DestroySandboxResponse], error) {
	if err := checkID(req.Msg.SandboxId); err != nil {
		return nil, fault.Wrap(err, "destroy sandbox", "")
	}
	if err := a.destroy(ctx, req.Msg.SandboxId); err != nil {
		return nil, err
	}
	return connect.NewResponse(&pb.DestroySandboxResponse{}), nil
}

func (a *Agent) destroy(ctx context.Context, id string) error {
	s, err := a.find(id)
	if err != nil {
		return nil // there is none: as it should be
	}
	done, err := s.change(ctx)
	if err != nil {
		return fault.Wrap(err, "destroy sandbox", id)
	}
	defer done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyPatience)
	defer cancel()
	s.mu.Lock()
	gone := s.gone
	s.mu.Unlock()
	if gone {
		return nil
	}
	s.unwatch()
	if err := a.deleteMachine(ctx, s.record()); err != nil {
		a.watch(s)
		return fault.Wrap(err, "destroy sandbox", id)
	}
	if err := a.drop(s); err != nil { // it is there still, and has ended
		return fault.Wrap(err, "destroy sandbox", id)
	}
	a.forget(s)
	a.options.Log.Info("sandbox destroyed", "sandbox", id)
	return nil
}

// deleteMachine removes what a sandbox runs in, or what was left of its making.
func (a *Agent) deleteMachine(ctx context.Context, r record) error {
	ids := []string{r.WorkspaceID}
	if r.WorkspaceID == "" {
		var err error
		if ids, err = a.options.Machines.MadeFor(ctx, r.Making); err != nil {
			return err
		}
	}
	for _, id := range ids {
		if err := a.options.Machines.Delete(ctx, id); err != nil && fault.KindOf(err) != fault.NotFound {
			return err
		}
	}
	return nil
}

// Terminate destroys all sandboxes, and has the host agent end.
func (a *Agent) Terminate(ctx context.Context, _ *connect.Request[pb.TerminateRequest]) (*connect.Response[pb.TerminateResponse], error) {
	a.terminating.Lock() // one at a time: none lets sandboxes be made while another destroys them
	defer a.terminating.Unlock()
	a.refuse(true)
	all := a.all()
	failed := make([]error, len(all))
	var ending sync.WaitGroup
	for i, s := range all {
		ending.Go(func() { failed[i] = a.destroy(ctx, s.id()) })
	}
	ending.Wait()
	if err := errors.Join(failed...); err != nil {
		a.refuse(false)
		return nil, fault.Wrap(err, "terminate", "")
	}
	a.options.Log.Info("terminated", "sandboxes", len(all))
	a.once.Do(func() { close(a.terminated) })
	return connect.NewResponse(&pb.TerminateResponse{}), nil
}
