package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// otherUserEnv is set if a test runs itself again as an unprivileged user.
const otherUserEnv = "PYRO_DAEMON_TEST_OTHER"

func TestSecondSupervisorIsRefused(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	if s, err := remote.Start(t.Context(), os.Args[0], h.config, nil); fault.KindOf(err) != fault.Precondition || s != nil {
		t.Errorf("got %v", err)
	}
	if _, out := run(t, c, "echo still here"); out != "still here\n" {
		t.Errorf("output of the first command: got %q", out)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	h := newHome(t, func(w *store.Workspace) { w.Spec.TTLSeconds = 600 })
	before := time.Now()
	c := h.live(t)
	s, err := c.Status(t.Context())
	check(t, err)
	if s.Version != "test" || s.PID == os.Getpid() || syscall.Kill(s.PID, 0) != nil || syscall.Kill(s.MachinePID, 0) != nil {
		t.Errorf("%+v", s)
	}
	if s.StartedAt.Before(before) || s.LastActivityAt.Before(before) || s.ExpiresAt.Sub(s.LastActivityAt) != 600*time.Second || s.UnlimitedReason == "" {
		t.Errorf("%+v", s)
	}
	if again, _ := c.Status(t.Context()); !again.LastActivityAt.Equal(s.LastActivityAt) {
		t.Error("asking for the status was activity")
	}
	run(t, c, "true")
	if again, _ := c.Status(t.Context()); !again.LastActivityAt.After(s.LastActivityAt) {
		t.Error("a command was no activity")
	}
	testenv.Eventually(t, "activity is recorded", func() bool {
		w, err := h.store.Workspace(t.Context(), h.config.Workspace.ID)
		return err == nil && w.LastActivityAt.After(s.LastActivityAt) && w.ExpiresAt.Sub(w.LastActivityAt).Round(time.Second) == 600*time.Second
	})
}

// runStarter starts a supervisor from the configuration in a file, and then waits until it is
// killed. The name of the file says whether it acknowledges the start.
func runStarter(path string) {
	text, err := os.ReadFile(path)
	var o remote.StartConfig
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	var s *remote.Starting
	if err == nil {
		s, err = remote.Start(context.Background(), os.Args[0], o, nil)
	}
	if err == nil && strings.HasSuffix(path, "released") {
		err = s.Release()
	}
	if err != nil {
		os.Stdout.WriteString(err.Error() + "\n")
		return
	}
	os.Stdout.WriteString("ready\n")
	select {}
}

func TestSupervisorDiesWithStarterUntilRelease(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"held", "released"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, nil)
			text, err := json.Marshal(h.config)
			check(t, err)
			path := filepath.Join(t.TempDir(), name)
			check(t, os.WriteFile(path, text, 0o600))
			starter := exec.Command(os.Args[0])
			starter.Env = append(os.Environ(), starterEnv+"="+path)
			out, err := starter.StdoutPipe()
			check(t, err)
			check(t, starter.Start())
			said, _ := bufio.NewReader(out).ReadString('\n')
			starter.Process.Kill()
			starter.Wait()
			if said != "ready\n" {
				t.Fatalf("the starter printed %q", said)
			}
			if name == "held" {
				h.ended(t)
				if reason := h.folder.LastEnd().Reason; strings.Contains(reason, "killed") || reason == "" {
					t.Errorf("it ended because %q", reason)
				}
				return
			}
			time.Sleep(200 * time.Millisecond)
			if _, out := run(t, h.dial(t), "echo alive"); out != "alive\n" {
				t.Errorf("got %q", out)
			}
		})
	}
}

// TestOperationsWaitForRelease checks that operations wait until the starter
// acknowledges the start. Until then the supervisor can still end with its starter.
func TestOperationsWaitForRelease(t *testing.T) {
	t.Parallel()
	h := newHome(t, nil)
	s := h.begin(t)
	c := h.dial(t)
	done := make(chan error, 2)
	go func() { _, err := c.Status(context.Background()); done <- err }()
	go func() {
		done <- c.WriteFile(context.Background(), "f", 0, 1, strings.NewReader("x"))
	}()
	select {
	case err := <-done:
		t.Fatal("it was done at once:", err)
	case <-time.After(200 * time.Millisecond):
	}
	check(t, s.Release())
	check(t, errors.Join(<-done, <-done))
}

// TestAbandonIsQuickAndLeavesNothing checks that an abandoned supervisor ends quickly and
// without remains. The test holds the lifecycle lock, as a starter does.
func TestAbandonIsQuickAndLeavesNothing(t *testing.T) {
	t.Parallel()
	h := newHome(t, nil)
	lock, err := flock.Take(t.Context(), filepath.Join(string(h.folder), remote.LifecycleLock), flock.Exclusive, nil)
	check(t, err)
	defer lock.Release()
	s := h.begin(t)
	c := h.dial(t)
	waiting := make(chan error, 1)
	go func() { _, err := c.Status(context.Background()); waiting <- err }()
	time.Sleep(50 * time.Millisecond)
	began := time.Now()
	s.Abandon()
	if took := time.Since(began); took > testenv.Patience {
		t.Errorf("it took %v", took)
	}
	if err := <-waiting; fault.KindOf(err) != fault.Unavailable {
		t.Errorf("error of the waiting caller: got %v", err)
	}
	h.ended(t)
	if reason := h.folder.LastEnd().Reason; !strings.HasPrefix(reason, "it could not be started") {
		t.Errorf("it ended because %q", reason)
	}
}

func TestCancelledStartLeavesNothing(t *testing.T) {
	t.Parallel()
	h := newHome(t, nil)
	for after := time.Duration(0); after < 60*time.Millisecond; after += 15 * time.Millisecond {
		enough := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), after, enough)
		s, err := remote.Start(ctx, os.Args[0], h.config, nil)
		cancel()
		if err == nil {
			s.Abandon()
		} else if !errors.Is(err, enough) {
			t.Errorf("after %v: %v", after, err)
		}
		h.ended(t)
	}
	h.live(t)
}

func TestFailedStartReportsReason(t *testing.T) {
	t.Parallel()
	h := newHome(t, func(w *store.Workspace) { w.Spec.Isolation = "kvm" })
	s, err := remote.Start(t.Context(), os.Args[0], h.config, nil)
	if err == nil {
		s.Abandon()
		t.Fatal("it started")
	}
	if k := fault.KindOf(err); k == fault.Internal || k == "" || !strings.Contains(err.Error(), h.config.Workspace.ID) {
		t.Errorf("%s: %v", k, err)
	}
	h.ended(t)
	if reason := h.folder.LastEnd().Reason; strings.Contains(reason, "killed") {
		t.Errorf("end reason of a supervisor that was not killed: got %q", reason)
	}
}

func TestStopEndsRunningCommands(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	var done []<-chan error
	var marks []string
	for range 3 {
		marks = append(marks, mark())
		done = append(done, sleeper(t, c, marks[len(marks)-1]))
	}
	began := time.Now()
	check(t, h.dial(t).Stop(t.Context(), "enough", false))
	if took := time.Since(began); took > testenv.Patience {
		t.Errorf("it took %v", took)
	}
	for _, d := range done {
		if err := <-d; err != nil && fault.KindOf(err) != fault.Unavailable { // no error means that the client saw that the command was killed
			t.Errorf("a command that was ended: %s, %v", fault.KindOf(err), err)
		}
	}
	h.ended(t, marks...)
	if e := h.folder.LastEnd(); e.Reason != "enough" || e.Expired || time.Since(e.At) > time.Minute {
		t.Errorf("%+v", e)
	}
	for _, row := range h.history(t) {
		if !endedEarly(row) {
			t.Errorf("%+v", row)
		}
	}
	_, err := c.Exec(t.Context(), sh("true"), program.Attach{})
	if k := fault.KindOf(err); k != fault.Precondition && k != fault.Unavailable || !strings.Contains(fault.HintOf(err), "pyro workspace start") {
		t.Errorf("after the end: %s, hint %q: %v", k, fault.HintOf(err), err)
	}
	check(t, c.Stop(t.Context(), "again", false))
	if reason := h.folder.LastEnd().Reason; reason != "enough" {
		t.Errorf("the second reason counts: %q", reason)
	}
}

// endedEarly reports whether a command was killed, or whether its entry says why its end was not
// seen.
func endedEarly(row store.Command) bool {
	return !row.EndedAt.IsZero() && (row.Result.Broken != "" || row.Result.Signal == int(syscall.SIGKILL) && row.Result.Code == 137)
}

func TestConcurrentStops(t *testing.T) {
	t.Parallel()
	h, _ := live(t)
	done := make(chan error)
	for range 8 {
		go func() {
			c, err := remote.Dial(context.Background(), h.folder)
			if err == nil {
				err = c.Stop(context.Background(), "enough", false)
				c.Close()
			}
			done <- err
		}()
	}
	for range 8 {
		if err := <-done; err != nil && fault.KindOf(err) != fault.Precondition {
			t.Error(err)
		}
	}
	h.ended(t)
}

func TestSilentClientDoesNotBlockStop(t *testing.T) {
	t.Parallel()
	h, _ := live(t) // the client of live never sends anything
	c, err := remote.Dial(t.Context(), h.folder)
	check(t, err)
	defer c.Close()
	began := time.Now()
	check(t, c.Stop(t.Context(), "enough", false))
	if took := time.Since(began); took > testenv.Patience {
		t.Errorf("it took %v", took)
	}
}

func TestKilledSupervisorLeavesNothing(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	m := mark()
	done := sleeper(t, c, m)
	check(t, c.WriteFile(t.Context(), "kept", 0, 4, strings.NewReader("kept")))
	testenv.Eventually(t, "the history has it", func() bool { return len(h.history(t)) == 1 })
	s, err := c.Status(t.Context())
	check(t, err)
	kill(t, s.PID, syscall.SIGKILL)
	if err := <-done; fault.KindOf(err) != fault.Unavailable || fault.HintOf(err) == "" {
		t.Errorf("its command: %s, hint %q: %v", fault.KindOf(err), fault.HintOf(err), err)
	}
	h.ended(t, m)
	if e := h.folder.LastEnd(); !strings.Contains(e.Reason, "killed") {
		t.Errorf("%+v", e)
	}
	rows := h.history(t)
	if len(rows) != 1 || !rows[0].EndedAt.IsZero() || rows[0].Argv[1] != m {
		t.Errorf("history: %+v", rows)
	}
	if b, err := os.ReadFile(filepath.Join(h.files(), "kept")); err != nil || string(b) != "kept" {
		t.Errorf("the written file is lost: got %q, %v", b, err)
	}
	if _, out := run(t, h.live(t), "echo again"); out != "again\n" {
		t.Errorf("output after a restart: got %q", out)
	}
}

func TestMachineDeathIsReported(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	m := mark()
	done := sleeper(t, c, m)
	s, err := c.Status(t.Context())
	check(t, err)
	kill(t, s.MachinePID, syscall.SIGKILL)
	err = <-done
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "machine ended") || !strings.Contains(fault.HintOf(err), "start") {
		t.Errorf("%s, hint %q: %v", fault.KindOf(err), fault.HintOf(err), err)
	}
	testenv.Eventually(t, "the supervisor has ended", func() bool { return !h.folder.Running() })
	if reason := h.folder.LastEnd().Reason; !strings.Contains(reason, "killed") || strings.Contains(reason, "supervisor") {
		t.Errorf("it ended because %q", reason)
	}
	rows := h.history(t)
	if len(rows) != 1 || rows[0].Result.Broken == "" || rows[0].EndedAt.IsZero() || rows[0].Result.Code == 0 {
		t.Errorf("history: %+v", rows)
	}
	for _, pid := range processes(t, m) {
		syscall.Kill(pid, syscall.SIGKILL) // host_compat does not end these processes, because their supervisor was killed
	}
}

func TestTerminatedSupervisorLosesNothing(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	m := mark()
	done := sleeper(t, c, m)
	s, err := c.Status(t.Context())
	check(t, err)
	kill(t, s.PID, syscall.SIGTERM)
	if err := <-done; err != nil && fault.KindOf(err) != fault.Unavailable {
		t.Errorf("its command: %v", err)
	}
	h.ended(t, m)
	if e := h.folder.LastEnd(); !strings.Contains(e.Reason, "signal terminated") {
		t.Errorf("%+v", e)
	}
	if rows := h.history(t); len(rows) != 1 || !endedEarly(rows[0]) {
		t.Errorf("history: %+v", rows)
	}
	if _, err := os.Lstat(filepath.Join(string(h.folder), "socket")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its socket: %v", err)
	}
}

func TestTimeToLive(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	id, m := h.config.Workspace.ID, mark()
	done := sleeper(t, c, m)
	// The time to live begins while a command runs, because a stalled test could start the command
	// too late.
	check(t, h.store.Update(t.Context(), id, func(w *store.Workspace) error {
		w.Spec.TTLSeconds = 1
		return nil
	}))
	check(t, c.Reconfigure(t.Context()))
	time.Sleep(2500 * time.Millisecond)
	if len(done) > 0 || !h.folder.Alive() {
		t.Error("it expired while a command ran")
	}
	ending := time.Now()
	for _, pid := range processes(t, m) {
		kill(t, pid, syscall.SIGTERM)
	}
	<-done
	h.ended(t)
	e := h.folder.LastEnd()
	if !e.Expired || !strings.Contains(e.Reason, "1 s") {
		t.Errorf("%+v", e)
	}
	w, err := h.store.Workspace(t.Context(), id)
	if err != nil {
		t.Error("an expired workspace was deleted:", err)
	}
	if w.LastActivityAt.Before(ending) || e.At.Sub(w.LastActivityAt) < time.Second {
		t.Errorf("its command ended after %v, it was last active at %v, and it expired at %v", ending, w.LastActivityAt, e.At)
	}
}

func TestExpiredMachineIsDeleted(t *testing.T) {
	t.Parallel()
	h := newHome(t, func(w *store.Workspace) { w.Kind, w.Spec.TTLSeconds = store.KindVM, 1 })
	// A program can create folders that even their owner can't open. The test creates them before
	// the start, because the machine can expire before it runs a program.
	check(t, os.MkdirAll(h.files()+"/d/e", 0o700))
	check(t, os.WriteFile(h.files()+"/d/e/f", nil, 0o600))
	check(t, errors.Join(os.Chmod(h.files()+"/d/e", 0), os.Chmod(h.files()+"/d", 0o500)))
	check(t, h.begin(t).Release())
	testenv.Eventually(t, "its record is gone", func() bool {
		_, err := h.store.Workspace(t.Context(), h.config.Workspace.ID)
		return fault.KindOf(err) == fault.NotFound
	})
	h.ended(t)
	testenv.Eventually(t, "its folder is gone", func() bool {
		_, err := os.Lstat(string(h.folder))
		return errors.Is(err, fs.ErrNotExist)
	})
}

// TestExpiredMachineOfOrdinaryUserIsDeleted runs the previous test as a user who is not root. Only
// such a user can lose access to folders.
func TestExpiredMachineOfOrdinaryUserIsDeleted(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t, "become an ordinary user")
	asUnprivileged(t, "^TestExpiredMachineIsDeleted$")
}

// asUnprivileged runs a test again as an unprivileged user who owns no files.
func asUnprivileged(t *testing.T, test string) {
	t.Helper()
	top, err := os.MkdirTemp("", "pyro-nobody-")
	check(t, err)
	defer os.RemoveAll(top)
	check(t, os.Chown(top, 65534, 65534))
	program := filepath.Join(top, "daemon.test")
	// A separate process copies the program. If this process copied it, a concurrent fork in
	// another test could inherit the file while it is open for writing. Such a file can't be
	// executed.
	if out, err := exec.Command("install", "-m", "755", os.Args[0], program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program, "-test.run="+test, "-test.timeout="+(5*testenv.Patience).String())
	cmd.Dir = top
	cmd.Env = append(os.Environ(), otherUserEnv+"=1", "HOME="+top, "TMPDIR="+top)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, NoSetGroups: false}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestSocketsInLongPaths(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	for len(state) < 300 { // the path of a socket has at most 107 bytes
		state = filepath.Join(state, strings.Repeat("long", 40))
	}
	h := newHomeIn(t, dirs.Dirs{Cache: t.TempDir(), State: state}, nil)
	if _, out := run(t, h.live(t), "echo far away"); out != "far away\n" {
		t.Errorf("got %q", out)
	}
}

// TestRemoveWaitsForProbe checks that a supervisor deletes its expired machine although another
// process locks the machine for a moment.
func TestRemoveWaitsForProbe(t *testing.T) {
	t.Parallel()
	h := newHome(t, nil)
	d := newDaemon("test", h.config)
	defer d.store.Close()
	testenv.Eventually(t, "its record is gone", func() bool {
		probe, err := flock.Try(filepath.Join(h.config.Folder, remote.LifecycleLock), flock.Exclusive)
		check(t, err)
		removed, began := make(chan error, 1), time.Now()
		go func() { removed <- d.remove(t.Context()) }()
		time.Sleep(100 * time.Millisecond)
		early := len(removed) > 0
		probe.Release()
		check(t, <-removed)
		_, err = h.store.Workspace(t.Context(), h.config.Workspace.ID)
		gone := fault.KindOf(err) == fault.NotFound
		late := time.Since(began) >= probePatience // a stalled test holds the lock for too long
		if early && gone || !gone && !late {
			t.Fatalf("it did not wait: deleted %v, before the release %v", gone, early)
		}
		return gone
	})
	if _, err := os.Lstat(string(h.folder)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its folder: %v", err)
	}
}
