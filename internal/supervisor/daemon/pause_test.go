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
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestUnpausableMachine checks that a machine without isolation can't be saved, and that it
// keeps running.
func TestUnpausableMachine(t *testing.T) {
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
		t.Errorf("output afterwards, or its programs: got %q", out)
	}
	if left, _ := filepath.Glob(filepath.Join(h.folder.DisksPath(), "memory-*")); left != nil {
		t.Errorf("left: %v", left)
	}
	for _, pid := range processes(t, text) {
		kill(t, pid, 9)
	}
	check(t, <-ended)
}

// TestUnresponsiveMachineIsNotPaused checks that a pause does not wait long for a machine that does
// not answer.
func TestUnresponsiveMachineIsNotPaused(t *testing.T) {
	t.Parallel()
	h := newHome(t, nil)
	d := h.inProcess(t)
	for _, pid := range processes(t, string(h.folder)) {
		testenv.StopProcess(t, pid)
	}
	ctx, cancel := context.WithTimeout(t.Context(), resumePatience+testenv.Patience)
	defer cancel()
	if err := d.pause(ctx); fault.KindOf(err) != fault.Unavailable || fault.HintOf(err) == "" {
		t.Errorf("got %v", err)
	}
}

// TestDamagedCheckpoint checks that each flipped bit in the files of a checkpoint is detected.
func TestDamagedCheckpoint(t *testing.T) {
	t.Parallel()
	write := func(dir string) (names []string) {
		s := checkpoint{Workspace: "ws-0", Sums: map[string]uint32{}, Shells: []savedShell{{ID: "sh-1", Typed: []byte("größer"), Streams: savedStreams{Stdout: position{Bytes: 7}}}}}
		check(t, errors.Join(s.writeLog(shellFile(dir, "sh-1"), []byte("what it printed")), s.writeLog(serviceFile(dir, "web", 0), nil), s.write(dir)))
		return []string{"shell-sh-1", "service-web.1", checkpointName}
	}
	dir := t.TempDir()
	names := write(dir)
	if s, err := readCheckpoint(dir); err != nil || len(s.Shells) != 1 || string(s.Shells[0].Typed) != "größer" || s.Shells[0].Streams.Stdout.Bytes != 7 {
		t.Fatalf("%+v, %v", s, err)
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		content, err := os.ReadFile(path)
		check(t, err)
		corrupt := func(what string) {
			t.Helper()
			if _, err := readCheckpoint(dir); fault.KindOf(err) != fault.Corrupt {
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
	_, err := readCheckpoint(dir)
	check(t, err)
}

// TestCheckpointIsBounded checks that a checkpoint's file is not written if it is too large to be
// read again.
func TestCheckpointIsBounded(t *testing.T) {
	t.Parallel()
	dir, s := t.TempDir(), checkpoint{Sums: map[string]uint32{}}
	if err := s.writeLog(shellFile(dir, "sh-1"), make([]byte, maxLogCopy+1)); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("got %v", err)
	}
	check(t, errors.Join(s.writeLog(shellFile(dir, "sh-1"), make([]byte, maxLogCopy)), s.write(dir)))
	_, err := readCheckpoint(dir)
	check(t, err)
}

// stuck is a driver whose machines never resume.
type stuck struct{ machine.Driver }

type stuckMachine struct{ machine.Machine }

func (s stuck) Start(ctx context.Context, spec machine.Spec) (machine.Machine, error) {
	m, err := s.Driver.Start(ctx, spec)
	return stuckMachine{m}, err
}

func (stuckMachine) Pause(context.Context) error  { return nil }
func (stuckMachine) Resume(context.Context) error { return errStuck }

// Thaw stands for a call that the machine never answers. Such a call must have a time limit.
func (stuckMachine) Thaw(ctx context.Context) error {
	if _, limited := ctx.Deadline(); !limited {
		return errors.New("thaw without a time limit")
	}
	return errStuck
}

func newStuckMachine(t *testing.T, in dirs.Dirs) *supervisor.Machine {
	program, err := guest.Find()
	check(t, err)
	m, err := supervisor.Start(t.Context(), supervisor.Config{Dirs: in, Driver: stuck{host.New(host.Config{Dirs: in, Guest: program})}, VCPUs: 1, MemMiB: 128})
	check(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

var errStuck = errors.New("it does not")

// TestFailedContinueEndsMachine checks that a machine ends if it can't be resumed, and that the
// outputs of its jobs are released.
func TestFailedContinueEndsMachine(t *testing.T) {
	t.Parallel()
	m := newStuckMachine(t, dirs.Dirs{Cache: t.TempDir(), State: t.TempDir()})
	d := &daemon{machine: m, stopping: make(chan struct{})}
	var printed bytes.Buffer
	o := d.newWriter(&printed, position{})
	o.hold()
	if err := (&savedMachine{daemon: d, held: []*redactingWriter{o}, allowRestarts: func() {}}).resume(t.Context()); !errors.Is(err, errStuck) {
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

// TestFailedThawKeepsSavedMachine checks that the saved machine is kept if it can't be
// thawed, so that it can be resumed later.
func TestFailedThawKeepsSavedMachine(t *testing.T) {
	t.Parallel()
	h := newHome(t, nil)
	saved := h.config.Workspace.Disks
	saved.Checkpoint = "memory-1"
	h.config.Workspace.Disks = saved
	check(t, errors.Join(h.store.SetDisks(t.Context(), h.config.Workspace.ID, saved), os.Mkdir(h.disks().DiskPath(saved.Checkpoint), 0o700)))
	lock, err := h.folder.TakeDisks(t.Context())
	check(t, err)
	next := saved
	next.Checkpoint = ""
	m := newStuckMachine(t, h.config.Dirs)
	r := &resuming{daemon: &daemon{config: h.config, folder: h.folder, store: h.store, machine: m}, checkpoint: saved.Checkpoint, next: next, lock: lock}
	if err := r.finish(t.Context()); !errors.Is(err, errStuck) {
		t.Errorf("got %v", err)
	}
	select {
	case <-m.Done():
	default:
		t.Error("its machine still runs")
	}
	w, err := h.store.Workspace(t.Context(), h.config.Workspace.ID)
	check(t, err)
	if !reflect.DeepEqual(w.Disks, saved) {
		t.Errorf("its disks are %+v, and were %+v", w.Disks, saved)
	}
	_, err = os.Stat(h.disks().DiskPath(saved.Checkpoint))
	check(t, err)
}
