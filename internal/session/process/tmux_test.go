package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// tmuxManager returns a manager. When the test ends, it checks that the sessions leave no process
// and no socket.
func tmuxManager(t *testing.T) *session.Manager {
	testenv.NeedsTool(t, "tmux")
	m := &session.Manager{Root: t.TempDir() + "/sessions", Program: os.Executable, Grace: time.Hour}
	t.Cleanup(func() { nothingLeft(t, m) })
	return m
}

// nothingLeft closes all sessions. It checks that no process and no socket remain.
func nothingLeft(t *testing.T, m *session.Manager) {
	t.Helper()
	all, err := m.List()
	if err != nil {
		t.Error(err)
	}
	for _, info := range all {
		if err := m.Close(context.Background(), info.ID); err != nil {
			t.Error(err)
		}
		testenv.Eventually(t, "no program of the session is left", func() bool { return marked(info.ID) == nil })
	}
	if _, err := os.Stat(m.Root + "/.tmux/socket"); err == nil {
		t.Error("the socket of tmux still exists")
	}
	for deadline := time.Now().Add(testenv.Patience); ; time.Sleep(5 * time.Millisecond) {
		var left []string
		for _, pid := range processes() {
			cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if strings.HasPrefix(cwd, m.Root) || strings.Contains(string(line), m.Root) {
				left = append(left, fmt.Sprintf("%d: %q", pid, line))
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("left %v", left)
			return
		}
	}
}

func inTmux(command string) session.Spec {
	s := spec(command)
	s.Backend, s.Name, s.Owner = session.Tmux, "name", "owner"
	return s
}

func TestSessionInTmux(t *testing.T) {
	m := tmuxManager(t)
	s := inTmux(`stty size; echo "$X|$TERM|$TMUX|$PWD|%#"; read -r x; echo "got $x"; exit 7`)
	s.Env, s.Cwd, s.Cols, s.Rows = map[string]string{"X": "a b'\"\n#{pid}"}, "/usr", 91, 33
	info := spawn(t, m, s)
	until(t, info, "33 91\r\na b'\"\r\n#{pid}|xterm-256color||/usr|%#\r\n")
	ask(t, info, session.Request{Op: session.OpInput, Data: []byte("é\n")})
	text, info := all(t, m, s.ID, session.Output)
	if !strings.HasSuffix(text, "got é\r\n") || info.Running() || info.ExitCode == nil || *info.ExitCode != 7 || info.Reason != session.Exited {
		t.Errorf("%q, %+v", text, info.State)
	}
	s = inTmux(`kill -9 $$`)
	spawn(t, m, s)
	if _, info = all(t, m, s.ID, session.Output); info.Reason != session.Signaled || *info.ExitCode != 137 || info.Signal != "SIGKILL" {
		t.Errorf("%+v", info.State)
	}
	s = inTmux("true")
	s.Cwd = "/no/such/folder"
	if _, err := m.Spawn(t.Context(), s, 20); fault.KindOf(err) != fault.Precondition || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("missing cwd: got %v", err)
	}
	s = inTmux("true")
	s.Separate = true
	if _, err := m.Spawn(t.Context(), s, 20); fault.KindOf(err) != fault.Unsupported {
		t.Errorf("separate streams: %v", err)
	}
	s = inTmux("true")
	s.Backend = "screen"
	if _, err := m.Spawn(t.Context(), s, 20); fault.KindOf(err) != fault.Unsupported || !strings.Contains(err.Error(), "unsupported backend") {
		t.Errorf("another backend: %v", err)
	}
}

// TestBytesInTmux checks that the program receives all typed bytes unchanged and in order.
func TestBytesInTmux(t *testing.T) {
	m := tmuxManager(t)
	all256 := make([]byte, 256)
	for i := range all256 {
		all256[i] = byte(i)
	}
	want := bytes.Repeat(all256, 40)
	file := filepath.Join(t.TempDir(), "file")
	info := spawn(t, m, inTmux(fmt.Sprintf(`stty raw -echo; echo ready; head -c %d >%s; cat %s; sleep 1000`, len(want), file, file)))
	until(t, info, "ready")
	for rest := want; len(rest) > 0; {
		n := min(len(rest), 700)
		ask(t, info, session.Request{Op: session.OpInput, Data: rest[:n]})
		rest = rest[n:]
	}
	until(t, info, "ready\n"+string(want))
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("received %d bytes, which differ from the typed ones: %v", len(got), err)
	}
	// Input that the program does not read is queued, up to a limit.
	info = spawn(t, m, func() session.Spec { s := inTmux(`stty raw -echo; echo ready; sleep 1000`); s.Name = ""; return s }())
	until(t, info, "ready")
	var err error
	for range 4 {
		if _, err = info.Ask(t.Context(), session.Request{Op: session.OpInput, Data: make([]byte, maxInput/2)}); err != nil {
			break
		}
	}
	if fault.KindOf(err) != fault.Exhausted {
		t.Errorf("2 MiB of unread input: %v", err)
	}
}

// TestMuchOutputInTmux checks that all output arrives, even with a rate limit.
func TestMuchOutputInTmux(t *testing.T) {
	m := tmuxManager(t)
	s := inTmux(`seq 200000`)
	s.OutputBytes = 4 << 20
	spawn(t, m, s)
	var want strings.Builder
	for i := range 200000 {
		fmt.Fprintf(&want, "%d\r\n", i+1)
	}
	info := after(t, m, s.ID)
	if err := info.Wait(t.Context(), session.Request{UntilEnd: true, Timeout: testenv.Patience}); err != nil {
		t.Fatal(err)
	}
	l, err := info.Folder.Log(session.Output)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if p, err := l.Read(0, 4<<20); err != nil || string(p.Data) != want.String() || !p.Ended {
		t.Errorf("%d bytes of %d: %v", len(p.Data), want.Len(), err)
	}
	s = inTmux(`yes`)
	s.OutputRate, s.Name = 10000, ""
	info = spawn(t, m, s)
	slow, err := info.Folder.Log(session.Output)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	testenv.Eventually(t, "it prints", func() bool { return slow.Len() > 1000 })
	time.Sleep(2 * time.Second)
	if n := slow.Len(); n > 1<<20 {
		t.Errorf("%d bytes in 2 s at 10,000 a second", n)
	}
}

// TestTmuxWorkspace checks that sessions in a shared tmux session have separate panes and sizes,
// and end independently.
func TestTmuxWorkspace(t *testing.T) {
	m := tmuxManager(t)
	var infos []session.Info
	for _, name := range []string{"a", "b", "c"} {
		s := inTmux(`while read x; do echo "` + name + ` $x $(stty size)"; done`)
		s.Name, s.TmuxWorkspace = name, "w #{pid}:."
		infos = append(infos, spawn(t, m, s))
	}
	other := inTmux(`cat`)
	other.Owner, other.TmuxWorkspace = "another", "w #{pid}:."
	spawn(t, m, other)
	list := exec.Command("tmux", "-S", "socket", "list-sessions", "-F", "#{session_windows}")
	list.Dir = m.Root + "/.tmux"
	if out, err := list.Output(); err != nil || string(out) != "1\n3\n" && string(out) != "3\n1\n" {
		t.Errorf("sessions of tmux with %q windows: %v", out, err)
	}
	ask(t, infos[1], session.Request{Op: session.OpResize, Cols: 100, Rows: 50})
	if _, err := infos[1].Ask(t.Context(), session.Request{Op: session.OpSignal, Signal: "INT"}); fault.KindOf(err) != fault.Unsupported {
		t.Errorf("a signal: %v", err)
	}
	if l := ask(t, infos[0], session.Request{Op: session.OpLook}).Look; len(l.Screen) > 24 {
		t.Errorf("%+v", l)
	}
	for i, want := range []string{"a x 24 80", "b x 50 100", "c x 24 80"} {
		ask(t, infos[i], session.Request{Op: session.OpInput, Data: []byte("x\n")})
		until(t, infos[i], want)
	}
	if err := m.Close(t.Context(), infos[0].ID); err != nil {
		t.Error(err)
	}
	ask(t, infos[2], session.Request{Op: session.OpInput, Data: []byte("y\n")})
	until(t, infos[2], "c y")
}

// sessionProcessOf returns the PID of a session process.
func sessionProcessOf(t *testing.T, info session.Info) int {
	t.Helper()
	pid, err := flock.Holder(string(info.Folder) + "/keeper.lock")
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func killSessionProcess(t *testing.T, info session.Info) {
	t.Helper()
	unix.Kill(sessionProcessOf(t, info), unix.SIGKILL)
	for info.Folder.HasProcess() {
		time.Sleep(time.Millisecond)
	}
}

// TestKilledDuringClose checks that a close ends all programs of a session whose session process is
// killed before it can do so.
func TestKilledDuringClose(t *testing.T) {
	m := manager(t)
	info := spawn(t, m, spec(`(setsid sh -c 'trap "" HUP; echo ready; sleep 1000' &) ; sleep 1000`))
	until(t, info, "ready")
	testenv.StopProcess(t, sessionProcessOf(t, info))
	closed := make(chan error, 1)
	go func() { closed <- m.Close(t.Context(), info.ID) }()
	time.Sleep(200 * time.Millisecond) // by now the close waits for an answer
	killSessionProcess(t, info)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	defer func() {
		for _, pid := range marked(info.ID) {
			unix.Kill(pid, unix.SIGKILL)
		}
	}()
	testenv.Eventually(t, "no program of the session is left", func() bool { return marked(info.ID) == nil })
}

func TestRecover(t *testing.T) {
	m := tmuxManager(t)
	var infos []session.Info
	for _, name := range []string{"a", "b"} {
		s := inTmux(`i=0; while read -t 0.02 x || [ $? -gt 128 ]; do i=$((i+1)); echo "` + name + ` $i $x"; done`)
		s.Name, s.TmuxWorkspace = name, "w"
		s.LogFolder = t.TempDir()
		infos = append(infos, spawn(t, m, s))
	}
	until(t, infos[0], "a 5 ")
	if err := m.Attach(t.Context(), infos[0].ID, "one"); err != nil {
		t.Fatal(err)
	}
	if err := m.Handoff(t.Context(), infos[0].ID, "one", "two", "why"); err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		killSessionProcess(t, info)
	}
	now := after(t, m, infos[0].ID)
	if !now.Running() || !now.Orphaned || now.Recovered {
		t.Fatalf("%+v", now)
	}
	if _, err := now.Ask(t.Context(), session.Request{Op: session.OpInput, Data: []byte("x")}); fault.KindOf(err) != fault.Precondition || fault.HintOf(err) != "pty_recover" {
		t.Errorf("typing into an orphaned session: %v", err)
	}
	for _, wrong := range [][2]string{{"", "owner"}, {"a", ""}, {"a", "another"}, {"c", "owner"}} {
		if _, err := m.Recover(t.Context(), wrong[0], wrong[1]); err == nil {
			t.Errorf("%q is recovered", wrong)
		}
	}
	time.Sleep(200 * time.Millisecond)
	got, err := m.Recover(t.Context(), "a", "owner")
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		if now := after(t, m, info.ID); !now.Running() || now.Orphaned || !now.Recovered || now.RecoveredAt.IsZero() || now.PID != info.PID {
			t.Errorf("%+v", now)
		}
	}
	claims, err := m.Claims()
	if l := claims[got.ID]; err != nil || l.Client != "" || l.Last.Event != "handoff" || l.Last.To != "two" {
		t.Errorf("%+v, %v", l, err)
	}
	ask(t, got, session.Request{Op: session.OpInput, Data: []byte("typed\n")})
	until(t, got, "typed\r\n")
	text := printed(t, got, session.Output)
	for i, n := 1, strings.Count(text, "\na "); i < n; i++ { // while there was no session process, no output was lost
		if !strings.Contains(text, fmt.Sprintf("a %d ", i)) {
			t.Errorf("without %d: %q", i, text)
		}
	}
	if strings.Contains(text, "pty-mcp") {
		t.Errorf("%q", text)
	}
	if again, err := m.Recover(t.Context(), "a", "owner"); err != nil || again.ID != got.ID || !again.RecoveredAt.Equal(got.RecoveredAt) {
		t.Errorf("recovered again: %+v, %v", again, err)
	}
	if err := m.Close(t.Context(), got.ID); err != nil {
		t.Error(err)
	}
	events, err := os.ReadFile(filepath.Join(got.LogFolder, got.ID, session.EventsName))
	if err != nil || !strings.Contains(string(events), `"recover"`) {
		t.Errorf("%s: %v", events, err)
	}
}

// TestRecoverAllOrNone checks that Recover recovers no session if one pane of the group does not
// match.
func TestRecoverAllOrNone(t *testing.T) {
	m := tmuxManager(t)
	var infos []session.Info
	for _, name := range []string{"a", "b"} {
		s := inTmux(`sleep 1000`)
		s.Name, s.TmuxWorkspace = name, "w"
		infos = append(infos, spawn(t, m, s))
	}
	for _, info := range infos {
		killSessionProcess(t, info)
	}
	split := exec.Command("tmux", "-S", "socket", "split-window", "-t", infos[1].ID, "sleep 1000")
	split.Dir = m.Root + "/.tmux"
	if out, err := split.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if _, err := m.Recover(t.Context(), "a", "owner"); fault.KindOf(err) != fault.Precondition {
		t.Errorf("two panes in the place of one: %v", err)
	}
	if now := after(t, m, infos[0].ID); !now.Orphaned || now.Recovered {
		t.Errorf("%+v", now)
	}
	plain := spec(`sleep 1000`)
	plain.Name, plain.Owner = "plain", "owner"
	spawn(t, m, plain)
	if _, err := m.Recover(t.Context(), "plain", "owner"); fault.KindOf(err) != fault.Unsupported {
		t.Errorf("a session outside tmux: %v", err)
	}
}

// TestEndsWhileOrphaned checks programs, and a tmux server, that end while their session is
// orphaned. The manager must notice that later.
func TestEndsWhileOrphaned(t *testing.T) {
	m := tmuxManager(t)
	first := inTmux(`read x; echo "last words"; exit 5`)
	info := spawn(t, m, first)
	second := inTmux(`trap "" HUP; echo ready; while :; do sleep 0.1; done`)
	second.Name = "second"
	killed := spawn(t, m, second)
	third := inTmux(`trap "" HUP; echo ready; while :; do sleep 0.1; done`)
	third.Name = "third"
	kept := spawn(t, m, third)
	until(t, killed, "ready")
	killSessionProcess(t, info)
	killSessionProcess(t, killed)
	found, err := info.Folder.Pane(info.Spec).Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := info.Folder.Pane(info.Spec).Type(t.Context(), []byte("x\n")); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(testenv.Patience); after(t, m, info.ID).Running() && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	if now := after(t, m, info.ID); now.Running() || now.Reason != session.Exited || *now.ExitCode != 5 || !strings.Contains(printed(t, now, session.Output), "last words") {
		t.Errorf("%+v", now.State)
	}
	unix.Kill(found.Server, unix.SIGKILL)
	if err := kept.Wait(t.Context(), session.Request{UntilEnd: true, Timeout: testenv.Patience}); err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(testenv.Patience); after(t, m, killed.ID).Running() && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	for _, info := range []session.Info{killed, kept} {
		if now := after(t, m, info.ID); now.Running() || now.Reason != session.Lost || now.ExitCode != nil {
			t.Errorf("%+v", now.State)
		}
		testenv.Eventually(t, "no program of the session is left", func() bool { return marked(info.ID) == nil })
	}
}

// TestLogWriterIsKilled kills the log writer, and checks that the log continues after a notice.
func TestLogWriterIsKilled(t *testing.T) {
	m := tmuxManager(t)
	info := spawn(t, m, inTmux(`while :; do echo tick; sleep 0.05; done`))
	until(t, info, "tick")
	pid, err := flock.Holder(string(info.Folder) + "/" + session.LogWriterLock)
	if err != nil {
		t.Fatal(err)
	}
	unix.Kill(pid, unix.SIGKILL)
	until(t, info, "output may be missing here")
	until(t, info, "killed\ntick")
}

// TestInterrupt checks that Ctrl-C ends a program, even if the program's ancestors ignore signals.
func TestInterrupt(t *testing.T) {
	m := tmuxManager(t)
	for _, backend := range []session.Backend{session.Subprocess, session.Tmux} {
		s := inTmux(`grep SigIgn /proc/self/status; exec sleep 1000`)
		s.Backend = backend
		info := spawn(t, m, s)
		until(t, info, "\n")
		if text := printed(t, info, session.Output); ignores(t, text) {
			t.Errorf("%s: it ignores signals: %q", backend, text)
		}
		testenv.Eventually(t, "sleep runs", func() bool {
			return slices.ContainsFunc(append(session.Descendants(info.PID), info.PID), func(pid int) bool {
				b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
				return string(b) == "sleep\n"
			})
		})
		ask(t, info, session.Request{Op: session.OpInput, Data: []byte{3}})
		if _, info = all(t, m, s.ID, session.Output); info.Reason != session.Signaled || *info.ExitCode != 130 {
			t.Errorf("%s: %+v", backend, info.State)
		}
	}
}
