package hostagent

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"math/big"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
)

// Default values and limits for the fields of CreateSandboxRequest.
const (
	defaultVCPUs      = 1
	defaultMemoryMB   = 512
	defaultDiskSizeMB = 5120
	maxVCPUs          = 64
	minMemoryMB       = 128
	maxMemoryMB       = 1 << 20
	minDiskSizeMB     = store.MinDiskMiB
	maxDiskSizeMB     = store.MaxDiskMiB
	maxEnvironment    = 1 << 20 // total size of all variables, in bytes
)

// destroyTimeout is the maximum duration of a sandbox's removal. The removal continues even if the
// client cancels the call.
const destroyTimeout = 2 * time.Minute

// CreateSandbox creates and starts a sandbox.
func (a *Agent) CreateSandbox(ctx context.Context, req *connect.Request[pb.CreateSandboxRequest]) (*connect.Response[pb.CreateSandboxResponse], error) {
	want, err := a.newRecord(req.Msg)
	if err != nil {
		return nil, fault.Wrap(err, "create sandbox", "")
	}
	s, err := a.create(ctx, want, a.options.Machines.Create)
	if err != nil {
		return nil, err
	}
	status, err := a.status(s)
	if err != nil {
		return nil, fault.Wrap(err, "create sandbox", s.id())
	}
	return connect.NewResponse(&pb.CreateSandboxResponse{SandboxId: s.id(), Status: status, Metadata: metadataOf(s.record())}), nil
}

// newRecord returns the record of the sandbox that a request describes. It fills in the defaults.
func (a *Agent) newRecord(m *pb.CreateSandboxRequest) (r record, err error) {
	r = record{
		SandboxID: m.SandboxId, VCPUs: int(m.Vcpus), MemoryMB: int(m.MemoryMb), DiskSizeMB: int(m.DiskSizeMb), TimeoutSec: int(m.TimeoutSec),
		TeamID: m.TeamId, TemplateID: m.TemplateId, DefaultUser: m.DefaultUser, DefaultEnv: maps.Clone(m.DefaultEnv), CreatedAt: a.options.clock().UTC(), CreationID: newID(),
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
		r.applyTemplate(t)
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
	err = program.CheckEnv(r.DefaultEnv, maxEnvironment)
	return r, err
}

// noUUID is the UUID whose digits are all zero.
const noUUID = "00000000000000000000000000000000"

// parseUUID returns the digits of a UUID without dashes. If the text is empty, it returns noUUID.
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

// newID returns a random sandbox ID in the control plane's format: "cl-" and 25 base-36 digits.
func newID() string {
	n, _ := rand.Int(rand.Reader, new(big.Int).Exp(big.NewInt(36), big.NewInt(25), nil)) // crypto/rand never fails
	text := n.Text(36)
	return "cl-" + strings.Repeat("0", 25-len(text)) + text
}

func checkID(id string) error { return checkName("sandbox_id", id) }

func checkName(what, name string) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	if name == "" || len(name) > 64 || strings.Trim(name, letters+"._-") != "" || !strings.Contains(letters, name[:1]) {
		return fault.Newf(fault.Invalid, "invalid %s %q: it must have 1 to 64 letters, digits, \".\", \"_\" and \"-\", and begin with a letter or digit", what, fault.Printable(name[:min(len(name), 80)]))
	}
	return nil
}

// create creates a sandbox, or returns the existing sandbox with this ID. The function build makes
// its machine. If create fails, it removes everything that it has created.
func (a *Agent) create(ctx context.Context, want record, build func(context.Context, Spec) (Created, error)) (*sandbox, error) {
	for {
		a.mu.Lock()
		there := a.sandboxes[want.SandboxID]
		if there == nil {
			break
		}
		a.mu.Unlock()
		done, err := there.lockChanges(ctx) // wait for a creation in progress
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
	if a.closing {
		a.mu.Unlock()
		return nil, fault.New(fault.Unavailable, "create sandbox", want.SandboxID, "the host agent is shutting down")
	}
	if want.From != "" && !a.isTemplate(want.From) { // the template was deleted after newRecord had found it
		a.mu.Unlock()
		return nil, fault.New(fault.NotFound, "create sandbox", want.SandboxID, "template %s was deleted", want.Template)
	}
	if err := a.admit(want); err != nil {
		a.mu.Unlock()
		return nil, fault.Wrap(err, "create sandbox", want.SandboxID)
	}
	s := a.newSandbox(want)
	s.changeLock <- struct{}{}
	a.sandboxes[want.SandboxID] = s
	a.mu.Unlock()
	defer func() { <-s.changeLock }()
	if err := a.make(ctx, s, want, build); err != nil {
		return nil, fault.Wrap(err, "create sandbox", want.SandboxID)
	}
	return s, nil
}

// make creates the machine of a sandbox. The caller must hold the change lock. If make fails, it
// removes the machine and the record.
func (a *Agent) make(ctx context.Context, s *sandbox, want record, build func(context.Context, Spec) (Created, error)) (err error) {
	var made Created
	defer func() {
		if err == nil {
			return
		}
		if made.ID != "" {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyTimeout)
			defer cancel()
			if failed := a.deleteMachine(ctx, record{WorkspaceID: made.ID}); failed != nil {
				s.setMachine(made, want.LastActive) // keep the ID of the machine, so that DestroySandbox can remove it
				err = errors.Join(err, failed)
				return
			}
		}
		err = errors.Join(err, a.removeRecord(want.SandboxID))
		a.remove(s)
	}()
	if err := a.writeRecord(want); err != nil {
		return err
	}
	began := time.Now()
	made, err = build(ctx, Spec{SandboxID: want.SandboxID, CreationID: want.CreationID, Template: want.From, Environment: want.Environment, VCPUs: want.VCPUs, MemoryMB: want.MemoryMB, DiskSizeMB: want.DiskSizeMB, NamedByClient: want.Template != minimal && want.Environment != a.options.Environment})
	if err != nil {
		return err
	}
	if !a.options.Machines.Running(made.ID) {
		return fault.Newf(fault.Unavailable, "its machine ended right after its creation").WithHint("try again")
	}
	want.WorkspaceID, want.Isolation, want.LastActive = made.ID, made.Isolation, a.options.clock().UTC()
	if err := a.writeRecord(want); err != nil {
		return err
	}
	s.setMachine(made, want.LastActive)
	a.startSampling(s)
	a.awaitEnd(s)
	a.options.Log.Info("sandbox created", "sandbox", want.SandboxID, "workspace", made.ID, "isolation", made.Isolation, "ms", time.Since(began).Milliseconds())
	return nil
}

func (a *Agent) remove(s *sandbox) {
	s.mu.Lock()
	s.gone = true
	s.mu.Unlock()
	a.mu.Lock()
	delete(a.sandboxes, s.id())
	a.mu.Unlock()
	a.watchers.removed(s.id())
}

// DestroySandbox removes a sandbox with all its data. It also succeeds if the sandbox does not
// exist.
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
		return nil // there is nothing to destroy
	}
	done, err := s.lockChanges(ctx)
	if err != nil {
		return fault.Wrap(err, "destroy sandbox", id)
	}
	defer done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyTimeout)
	defer cancel()
	s.mu.Lock()
	gone := s.gone
	s.mu.Unlock()
	if gone {
		return nil
	}
	s.stopSampling()
	if err := a.deleteMachine(ctx, s.record()); err != nil {
		a.startSampling(s)
		return fault.Wrap(err, "destroy sandbox", id)
	}
	if err := a.deleteRecord(s); err != nil { // the sandbox stays listed as stopped
		return fault.Wrap(err, "destroy sandbox", id)
	}
	a.remove(s)
	a.options.Log.Info("sandbox destroyed", "sandbox", id)
	return nil
}

// deleteMachine removes the machine of a sandbox. If the sandbox's creation was interrupted, it
// removes the machines that the creation left.
func (a *Agent) deleteMachine(ctx context.Context, r record) error {
	ids := []string{r.WorkspaceID}
	if r.WorkspaceID == "" {
		var err error
		if ids, err = a.options.Machines.FindByCreation(ctx, r.CreationID); err != nil {
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

// Terminate destroys all sandboxes. Then it closes the channel that Terminated returns.
func (a *Agent) Terminate(ctx context.Context, _ *connect.Request[pb.TerminateRequest]) (*connect.Response[pb.TerminateResponse], error) {
	// A failed call allows new sandboxes again, which must not happen during another call.
	a.terminating.Lock()
	defer a.terminating.Unlock()
	a.setClosing(true)
	all := a.all()
	failed := make([]error, len(all))
	var ending sync.WaitGroup
	for i, s := range all {
		ending.Go(func() { failed[i] = a.destroy(ctx, s.id()) })
	}
	ending.Wait()
	if err := errors.Join(failed...); err != nil {
		a.setClosing(false)
		return nil, fault.Wrap(err, "terminate", "")
	}
	a.options.Log.Info("terminated", "sandboxes", len(all))
	a.once.Do(func() { close(a.terminated) })
	return connect.NewResponse(&pb.TerminateResponse{}), nil
}
