package process

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// patientEnv is set if session processes must wait for a slow EXIT trap on a stalled host.
const patientEnv = "PYRO_PROCESS_TEST_PATIENT"

// TestMain lets the test program run as the session process too, so the race detector covers both.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == session.Command {
		if os.Getenv(patientEnv) != "" {
			endGrace = testenv.Patience
		}
		if Main(os.Args[2], os.Stdout, nil) != nil {
			os.Exit(1)
		}
		return
	}
	os.Setenv("GORACE", testenv.RaceOptions())
	home, err := os.MkdirTemp("", "pyro-process-test-") // login shells read files in the user's home folder
	if err != nil {
		panic(err)
	}
	os.Setenv("HOME", home)
	code := m.Run()
	os.RemoveAll(home)
	os.Exit(code)
}

func manager(t *testing.T) *session.Manager {
	m := &session.Manager{Root: t.TempDir() + "/sessions", Program: os.Executable, Grace: time.Hour}
	t.Cleanup(func() {
		all, err := m.List()
		if err != nil {
			t.Error(err)
		}
		for _, info := range all {
			if err := m.Close(context.Background(), info.ID); err != nil {
				t.Error(err)
			}
		}
	})
	return m
}

func spec(command string) session.Spec {
	now := time.Now()
	return session.Spec{
		ID: session.NewID(now, os.Getpid()), Scope: session.ReadWrite, Command: command, Cwd: "/", Cols: 80, Rows: 24, Backend: session.Subprocess,
		OutputBytes: 1 << 20, CreatedAt: now,
	}
}

func spawn(t *testing.T, m *session.Manager, s session.Spec) session.Info {
	t.Helper()
	info, err := m.Spawn(t.Context(), s, 20)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// all waits until a session ends, and returns its output.
func all(t *testing.T, m *session.Manager, id string, stream session.Stream) (string, session.Info) {
	t.Helper()
	info, err := m.Get(id)
	if err == nil {
		err = info.Wait(t.Context(), session.Request{UntilEnd: true, Timeout: testenv.Patience})
	}
	if err != nil {
		t.Fatal(err)
	}
	return printed(t, info, stream), after(t, m, id)
}

func printed(t *testing.T, info session.Info, stream session.Stream) string {
	t.Helper()
	l, err := info.Folder.Log(stream)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p, err := l.Read(0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return string(p.Data)
}

func after(t *testing.T, m *session.Manager, id string) session.Info {
	t.Helper()
	info, err := m.Get(id)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func ask(t *testing.T, info session.Info, req session.Request) session.Answer {
	t.Helper()
	a, err := info.Ask(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// until waits until the output of a session contains text.
func until(t *testing.T, info session.Info, text string) {
	t.Helper()
	for deadline := time.Now().Add(testenv.Patience); ; {
		have := printed(t, info, session.Output)
		if strings.Contains(have, text) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("it did not print %q: %q", text, have)
		}
		if err := info.Wait(t.Context(), session.Request{Cursor: int64(len(have)), Timeout: time.Second}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSession(t *testing.T) {
	m := manager(t)
	s := spec(`stty size; read -r x; echo "got $x"; exit 7`)
	s.Env = map[string]string{"X": "1"}
	info := spawn(t, m, s)
	if !info.Running() || info.PID == 0 {
		t.Errorf("%+v", info)
	}
	until(t, info, "24 80")
	ask(t, info, session.Request{Op: session.OpInput, Data: []byte("é\n")})
	text, info := all(t, m, s.ID, session.Output)
	if !strings.Contains(text, "got é\r\n") || info.Running() || info.ExitCode == nil || *info.ExitCode != 7 || info.Reason != session.Exited || info.Written != 3 {
		t.Errorf("%q, %+v", text, info.State)
	}
	if _, err := info.Ask(t.Context(), session.Request{Op: session.OpInput, Data: []byte("x")}); fault.KindOf(err) != fault.Precondition {
		t.Errorf("typing into an ended session: %v", err)
	}
	testenv.Eventually(t, "the session process has ended", func() bool { return !info.Folder.HasProcess() })
}

func TestSeparateStreams(t *testing.T) {
	m := manager(t)
	s := spec(`echo out; echo err >&2; read x; echo "$x"`)
	s.Separate = true
	info := spawn(t, m, s)
	ask(t, info, session.Request{Op: session.OpInput, Data: []byte("typed\n")})
	out, _ := all(t, m, s.ID, session.Stdout)
	if errs := printed(t, info, session.Stderr); out != "out\ntyped\n" || errs != "err\n" {
		t.Errorf("%q, %q", out, errs)
	}
	if both := printed(t, info, session.Output); len(both) != len("out\ntyped\nerr\n") {
		t.Errorf("%q", both)
	}
}

// TestSessionProcessIsKilled checks a session whose session process was killed. Its state must be
// lost, its output must be complete, and none of its programs may remain.
func TestSessionProcessIsKilled(t *testing.T) {
	m := manager(t)
	info := spawn(t, m, spec(`setsid sh -c 'trap "" HUP; while :; do sleep 0.05; done' & echo before; while :; do sleep 0.1; done`))
	until(t, info, "before")
	running := 0
	for _, pid := range processes() {
		if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(line), string(info.Folder)) {
			unix.Kill(pid, unix.SIGKILL)
			running++
		}
	}
	if running != 1 {
		t.Fatalf("%d running", running)
	}
	for info.Folder.HasProcess() {
		time.Sleep(time.Millisecond)
	}
	now := after(t, m, info.ID)
	if now.Running() || now.Reason != session.Lost || now.ExitCode != nil {
		t.Errorf("%+v", now.State)
	}
	testenv.Eventually(t, "none of its programs is left", func() bool { return marked(info.ID) == nil })
	if text := printed(t, now, session.Output); text != "before\r\n" {
		t.Errorf("it printed %q", text)
	}
	if err := now.Wait(t.Context(), session.Request{UntilEnd: true, Timeout: time.Minute}); err != nil {
		t.Error(err)
	}
}

func TestLimits(t *testing.T) {
	m := manager(t)
	s := spec(`yes`)
	s.RuntimeLimit, s.OutputBytes = 300*time.Millisecond, 1000
	spawn(t, m, s)
	text, info := all(t, m, s.ID, session.Output)
	if !strings.Contains(text, "[pty-mcp] session timed out (limit 0.3 s)") || info.Reason != session.TimedOut || len(text) > 1000 {
		t.Errorf("%q, %+v", text, info.State)
	}
	s = spec(`sleep 1000`)
	s.IdleTimeout = 500 * time.Millisecond
	spawn(t, m, s)
	if _, info = all(t, m, s.ID, session.Output); info.Reason != session.TimedOut {
		t.Errorf("idle: %+v", info.State)
	}
	s = spec(`cat`)
	s.InputRate = 10
	info = spawn(t, m, s)
	ask(t, info, session.Request{Op: session.OpInput, Data: []byte("12345678\n")})
	if _, err := info.Ask(t.Context(), session.Request{Op: session.OpInput, Data: []byte("12345678901\n")}); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("too fast: %v", err)
	}
	s = spec(`head -c 3000 /dev/zero | tr '\0' x; sleep 1000`)
	s.OutputRate = 1000
	began := time.Now()
	info = spawn(t, m, s)
	until(t, info, strings.Repeat("x", 3000))
	if took := time.Since(began); took < 1500*time.Millisecond {
		t.Errorf("3,000 bytes at 1,000 a second arrived in %s", took)
	}
}

func TestLook(t *testing.T) {
	m := manager(t)
	info := spawn(t, m, spec(`printf 'one\ntwo'; read -rs x; printf '\e[?1049hfull'; read -rs x`))
	until(t, info, "two")
	look := func(want session.Hint) *session.Look {
		t.Helper()
		var l *session.Look
		for deadline := time.Now().Add(testenv.Patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			if l = ask(t, info, session.Request{Op: session.OpLook}).Look; l.Hint == want {
				return l
			}
		}
		t.Fatalf("%+v, not %s", l, want)
		return nil
	}
	if l := look(session.Asking); strings.Join(l.Screen, "|") != "one|two" || l.Row != 1 || l.Col != 3 || l.Alternate {
		t.Errorf("%+v", l)
	}
	ask(t, info, session.Request{Op: session.OpInput, Data: []byte("x\n")})
	until(t, info, "full")
	if l := ask(t, info, session.Request{Op: session.OpLook}).Look; l.Screen[l.Row] != "full" || !l.Alternate {
		t.Errorf("%+v", l)
	}
	ask(t, info, session.Request{Op: session.OpResize, Cols: 100, Rows: 50})
	if now := after(t, m, info.ID); now.Size != (session.Size{Cols: 100, Rows: 50}) {
		t.Errorf("%+v", now.Size)
	}
}

func TestWrongRequests(t *testing.T) {
	m := manager(t)
	info := spawn(t, m, spec(`sleep 1000`))
	for _, req := range []session.Request{
		{Op: "x"}, {Op: session.OpSignal, Signal: "USR9"}, {Op: session.OpResize}, {Op: session.OpResize, Cols: 1, Rows: 100000},
		{Op: session.OpInput, Data: make([]byte, maxInput+1)},
	} {
		if _, err := info.Ask(t.Context(), req); err == nil {
			t.Errorf("%+v is answered", req)
		}
	}
	ask(t, info, session.Request{Op: session.OpSignal, Signal: "KILL"})
	if _, info = all(t, m, info.ID, session.Output); info.Reason != session.Signaled || *info.ExitCode != 137 {
		t.Errorf("%+v", info.State)
	}
	s := spec("x")
	s.Cwd = "/no/such/folder"
	if _, err := m.Spawn(t.Context(), s, 20); err == nil {
		t.Error("got no error for a missing cwd")
	}
	if entries, _ := os.ReadDir(m.Root); len(entries) != 2 { // the other session and the lock
		t.Errorf("left %v", entries)
	}
}

// processes returns all processes of the host.
func processes() (all []int) { return append(session.Descendants(1), 1) }

// marked returns the running processes that have the session ID in their environment.
func marked(id string) (all []int) {
	for _, pid := range processes() {
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if strings.Contains(string(env), session.Variable+"="+id) {
			all = append(all, pid)
		}
	}
	return all
}

// ignores reports whether a program ignores the signals HUP, INT or PIPE. It does not check other
// signals, because the parent of the tests may ignore them.
func ignores(t *testing.T, status string) bool {
	t.Helper()
	_, hex, _ := strings.Cut(strings.TrimSpace(status), "SigIgn:\t")
	set, err := strconv.ParseUint(hex, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return set&(1<<(unix.SIGHUP-1)|1<<(unix.SIGINT-1)|1<<(unix.SIGPIPE-1)) != 0
}

// TestKeysInterrupt checks that programs do not inherit the signal settings of the session process.
func TestKeysInterrupt(t *testing.T) {
	m := manager(t)
	// The inner shell announces that it runs, because an interrupt between two commands would not
	// end it.
	info := spawn(t, m, spec(`grep -h '^SigIgn' /proc/self/status; sh -c 'echo sleeps; exec sleep 1000'; echo on`))
	until(t, info, "sleeps")
	if text, _, _ := strings.Cut(printed(t, info, session.Output), "\r\n"); ignores(t, text) {
		t.Errorf("it ignores signals: %q", text)
	}
	ask(t, info, session.Request{Op: session.OpInput, Data: []byte{3}})
	if text, info := all(t, m, info.ID, session.Output); strings.Contains(text, "on") || *info.ExitCode != 130 {
		t.Errorf("%q, %+v", text, info.State)
	}
}

// TestSignalDiscardsInput signals a program that does not read its input. The signal discards the
// input, unless the terminal says otherwise.
func TestSignalDiscardsInput(t *testing.T) {
	m := manager(t)
	for _, c := range []struct{ settings, reads string }{
		{"isig", "next"}, {"noflsh", "unread"}, {"-isig", "unread"}, {"intr undef", "unread"},
	} {
		info := spawn(t, m, spec(fmt.Sprintf(`trap 'echo interrupted' INT; stty -echo %s; sh -c 'echo sleeps; exec sleep 1000'
			read -r line; echo "it read $line"; exec sleep 1000`, c.settings)))
		until(t, info, "sleeps\r\n")
		// This is more than a terminal holds, so the rest waits in the session process.
		ask(t, info, session.Request{Op: session.OpInput, Data: []byte(strings.Repeat("unread\n", 50_000))})
		ask(t, info, session.Request{Op: session.OpSignal, Signal: "INT"})
		until(t, info, "interrupted")
		ask(t, info, session.Request{Op: session.OpInput, Data: []byte("next\n")})
		until(t, info, "it read ")
		if text := printed(t, info, session.Output); !strings.Contains(text, "it read "+c.reads+"\r\n") {
			t.Errorf("stty %s: %q", c.settings, text)
		}
		if err := m.Close(t.Context(), info.ID); err != nil {
			t.Error(err)
		}
	}
}

func BenchmarkOutput(b *testing.B) {
	file := b.TempDir() + "/file"
	if err := os.WriteFile(file, []byte(strings.Repeat("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcd\n", 200<<20/63)), 0o600); err != nil {
		b.Fatal(err)
	}
	m := &session.Manager{Root: b.TempDir(), Program: os.Executable}
	b.SetBytes(200 << 20)
	for b.Loop() {
		s := spec("cat " + file)
		info, err := m.Spawn(b.Context(), s, 20)
		if err == nil {
			err = info.Wait(b.Context(), session.Request{UntilEnd: true, Timeout: time.Minute})
		}
		if err == nil {
			err = m.Close(b.Context(), s.ID)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
