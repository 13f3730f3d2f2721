package daemon

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/guest"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/host"
	"github.com/pyro-mcp/pyro/internal/supervisor"
)

// TestAMachineThatCantBePaused is one without isolation, which can't be written down: what runs in it goes on.
func TestAMachineThatCantBePaused(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	text := mark()
	ended := sleeper(t, c, text)
	err := c.Pause(t.Context(), "the test wants it")
	var f *fault.Error
	if fault.KindOf(err) != fault.Unsupported || !errors.As(err, &f) || f.Hint == "" {
		t.Errorf("got %v", err)
	}
	if _, out := run(t, c, "echo still here"); out != "still here\n" || processes(t, text) == nil {
		t.Errorf("afterwards it says %q", out)
	}
	if left, _ := filepath.Glob(filepath.Join(h.folder.DisksPath(), "memory-*")); left != nil {
		t.Errorf("left: %v", left)
	}
	for _, pid := range processes(t, text) {
		kill(t, pid, 9)
	}
	check(t, <-ended)
}

// TestDamageOfWhatStood finds every bit that is another, in what is written beside a saved machine.
func TestDamageOfWhatStood(t *testing.T) {
	t.Parallel()
	write := func(dir string) (names []string) {
		s := standing{Workspace: "ws-0", Sums: map[string]uint32{}, Shells: []standingShell{{ID: "sh-1", Typed: []byte("größer"), Out: point{Came: 7}}}}
		check(t, errors.Join(s.keep(shellFile(dir, "sh-1"), []byte("what it printed")), s.keep(serviceFile(dir, "web", 0), nil), s.write(dir)))
		return []string{"shell-sh-1", "service-web.1", standingName}
	}
	dir := t.TempDir()
	names := write(dir)
	if s, err := readStanding(dir); err != nil || len(s.Shells) != 1 || string(s.Shells[0].Typed) != "größer" || s.Shells[0].Out.Came != 7 {
		t.Fatalf("%+v, %v", s, err)
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		content, err := os.ReadFile(path)
		check(t, err)
		corrupt := func(what string) {
			t.Helper()
			if _, err := readStanding(dir); fault.KindOf(err) != fault.Corrupt {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
		for at := range len(content) * 8 {
			other := bytes.Clone(content)
			other[at/8] ^= 1 << (at % 8)
			check(t, os.WriteFile(path, other, 0o600))
			corrupt("another bit")
		}
		for size := range content {
			check(t, os.WriteFile(path, content[:size], 0o600))
			corrupt("cut")
		}
		check(t, os.WriteFile(path, append(bytes.Clone(content), 'x'), 0o600))
		corrupt("longer")
		check(t, os.Remove(path))
		corrupt("gone")
		check(t, os.WriteFile(path, content, 0o600))
	}
	_, err := readStanding(dir)
	check(t, err)
}

// TestTooMuchStands refuses to write what could not be read: the machine goes on then.
func TestTooMuchStands(t *testing.T) {
	t.Parallel()
	dir, s := t.TempDir(), standing{Sums: map[string]uint32{}}
	if err := s.keep(shellFile(dir, "sh-1"), make([]byte, maxKept+1)); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("got %v", err)
	}
	check(t, errors.Join(s.keep(shellFile(dir, "sh-1"), make([]byte, maxKept)), s.write(dir)))
	_, err := readStanding(dir)
	check(t, err)
}

// stuck is a driver whose machines never go on.
type stuck struct{ machine.Driver }

type stuckMachine struct{ machine.Machine }

func (s stuck) Start(ctx context.Context, spec machine.Spec) (machine.Machine, error) {
	m, err := s.Driver.Start(ctx, spec)
	return stuckMachine{m}, err
}

func (stuckMachine) Pause(context.Context) error  { return nil }
func (stuckMachine) Resume(context.Context) error { return errStuck }
func (stuckMachine) Wake(context.Context) error   { return errStuck }

func stuckIn(t *testing.T, in dirs.Dirs) *supervisor.Machine {
	program, err := guest.Find()
	check(t, err)
	m, err := supervisor.Start(t.Context(), supervisor.Config{Dirs: in, Driver: stuck{host.New(host.Config{Dirs: in, Guest: program})}, VCPUs: 1, MemMiB: 128})
	check(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

var errStuck = errors.New("it does not")

// TestAMachineThatCantGoOn ends, and with it its supervisor: nobody could tell it from one that hangs. What it printed is held no more.
func TestAMachineThatCantGoOn(t *testing.T) {
	t.Parallel()
	m := stuckIn(t, dirs.Dirs{Cache: t.TempDir(), State: t.TempDir()})
	d := &daemon{machine: m, stopping: make(chan struct{})}
	var printed bytes.Buffer
	o := d.outlet(&printed, point{})
	o.hold()
	if err := (&still{daemon: d, held: []*outlet{o}}).goOn(t.Context()); !errors.Is(err, errStuck) {
		t.Errorf("got %v", err)
	}
	<-m.Done()
	<-d.stopping
	if !d.stopFor.killed || !strings.Contains(d.stopFor.reason, errStuck.Error()) {
		t.Errorf("it ends as %+v", d.stopFor)
	}
	if _, err := o.Write([]byte("x")); err != nil || printed.String() != "x" {
		t.Errorf("%v, and it has printed %q", err, printed.String())
	}
}

// TestAMachineThatDoesNotWakeStaysPaused has what was saved be there for the next who resumes it.
func TestAMachineThatDoesNotWakeStaysPaused(t *testing.T) {
	t.Parallel()
	h := furnish(t, nil)
	saved := h.order.Workspace.Disks
	saved.Memory = "memory-1"
	h.order.Workspace.Disks = saved
	check(t, errors.Join(h.store.SetDisks(t.Context(), h.order.Workspace.ID, saved), os.Mkdir(h.disks().DiskPath(saved.Memory), 0o700)))
	lock, err := h.folder.TakeDisks(t.Context())
	check(t, err)
	next := saved
	next.Memory = ""
	m := stuckIn(t, h.order.Dirs)
	r := &resuming{daemon: &daemon{order: h.order, folder: h.folder, store: h.store, machine: m}, memory: saved.Memory, next: next, lock: lock}
	if err := r.settle(t.Context()); !errors.Is(err, errStuck) {
		t.Errorf("got %v", err)
	}
	select {
	case <-m.Done():
	default:
		t.Error("its machine is still there")
	}
	w, err := h.store.Workspace(t.Context(), h.order.Workspace.ID)
	check(t, err)
	if !reflect.DeepEqual(w.Disks, saved) {
		t.Errorf("its disks are %+v, and were %+v", w.Disks, saved)
	}
	_, err = os.Stat(h.disks().DiskPath(saved.Memory))
	check(t, err)
}
