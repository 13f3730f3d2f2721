package pyro

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// These tests run commands on the host, because this package behaves identically for every driver.
// The tests of the drivers use real machines.

func TestMain(m *testing.M) { os.Exit(testenv.RunWithPrograms(m)) }

// onHost returns a Pyro with temporary folders. At the end of the test, it checks that no machine
// and no goroutine is left.
func onHost(t *testing.T) *Pyro {
	t.Helper()
	state := t.TempDir()
	p, err := New(Options{CacheDir: t.TempDir(), StateDir: state})
	if err != nil {
		t.Fatal(err)
	}
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		goleak.VerifyNone(t, before)
		if left, err := os.ReadDir(filepath.Join(state, "machines")); err != nil || len(left) > 0 {
			t.Errorf("leftovers of machines: %v, %v", left, err)
		}
	})
	return p
}

func shell(script string) RunInVMRequest {
	return RunInVMRequest{Environment: "debian:12", Argv: []string{"sh", "-c", script}, AllowHostCompat: true, TimeoutSeconds: int(testenv.Patience.Seconds())}
}

func TestRunCollectsOutput(t *testing.T) {
	p := onHost(t)
	started := RunStart{}
	req := shell(`cat; echo err >&2; echo "$GREETING"; exit 3`)
	req.Stdin, req.Env = strings.NewReader("in\n"), map[string]string{"GREETING": "hello"}
	req.OnStart = func(s RunStart) { started = s }
	r, err := p.RunInVM(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if r.ExitCode != 3 || r.Stdout != "in\nhello\n" || r.Stderr != "err\n" || r.TimedOut {
		t.Errorf("%+v", r)
	}
	if r.Isolation != IsolationNone || r.ExecutionMode != HostCompat || r.HostCompatReason == "" || r.RunStart != started {
		t.Errorf("got start %+v, and OnStart got %+v", r.RunStart, started)
	}
	if len(r.Timings) < 2 || r.StartMS <= 0 || r.TotalMS < r.StartMS {
		t.Errorf("timings %v, start %v ms, total %v ms", r.Timings, r.StartMS, r.TotalMS)
	}
}

func TestRunBoundsOutput(t *testing.T) {
	r, err := onHost(t).RunInVM(t.Context(), shell(`head -c 20000000 /dev/zero; echo all`))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Stdout) != MaxOutput || !r.StdoutTruncated || r.StderrTruncated || r.ExitCode != 0 {
		t.Errorf("%d bytes, truncated %v, exit code %d", len(r.Stdout), r.StdoutTruncated, r.ExitCode)
	}
}

func TestRunStreams(t *testing.T) {
	var stdout, stderr bytes.Buffer
	req := shell(`echo out; echo err >&2`)
	req.Stdout, req.Stderr = &stdout, &stderr
	r, err := onHost(t).RunInVM(t.Context(), req)
	if err != nil || stdout.String() != "out\n" || stderr.String() != "err\n" || r.Stdout != "out\n" || r.Stderr != "err\n" {
		t.Errorf("%q, %q, %+v, %v", &stdout, &stderr, r, err)
	}
}

func TestCommandIsShellLine(t *testing.T) {
	r, err := onHost(t).RunInVM(t.Context(), RunInVMRequest{Environment: "debian:12", Command: `echo $((6 * 7))`, AllowHostCompat: true})
	if err != nil || r.Stdout != "42\n" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestNothingToRun checks requests without a command for environments without a command.
func TestNothingToRun(t *testing.T) {
	p := withWorkspaces(t)
	small := serveSmallImage(t)
	run := func(name, hint string) {
		t.Helper()
		_, err := p.RunInVM(t.Context(), RunInVMRequest{Environment: name, AllowHostCompat: true})
		if !errors.Is(err, ErrNoCommand) || KindOf(err) != Invalid || err.Error() != "nothing to run: set argv or command" || HintOf(err) != hint {
			t.Errorf("%s: %v, hint %q", name, err, HintOf(err))
		}
	}
	run("debian:12", "")
	run(small, "") // not installed, and the host has no machine that would need it
	if _, err := p.PullEnvironment(t.Context(), PullEnvironmentRequest{Environment: small}); err != nil {
		t.Fatal(err)
	}
	run(small, "if the image has a command of its own: pyro env pull --force "+small)
}

func TestTimeLimits(t *testing.T) {
	for name, set := range map[string]func(*RunInVMRequest, int){
		"timeout_seconds": func(r *RunInVMRequest, limit int) { r.TimeoutSeconds = limit },
		"ttl_seconds":     func(r *RunInVMRequest, limit int) { r.TTLSeconds = limit },
	} {
		t.Run(name, func(t *testing.T) {
			p := onHost(t)
			req := shell(`echo begun; sleep 600`)
			var r *RunResult
			// On a slow host, a short limit is over before the output.
			for limit := 1; r == nil || r.TimedOut && r.Stdout == ""; limit *= 2 {
				set(&req, limit)
				var err error
				if r, err = p.RunInVM(t.Context(), req); err != nil {
					t.Fatal(err)
				}
			}
			if !r.TimedOut || r.TimeLimit != name || r.ExitCode != 124 || r.Stdout != "begun\n" || r.TotalMS > 1000*testenv.Patience.Seconds() {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestCancelEndsTheRun(t *testing.T) {
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	req := shell(`sleep 30`)
	req.OnStart = func(RunStart) { time.AfterFunc(200*time.Millisecond, func() { cancel(enough) }) }
	began := time.Now()
	_, err := onHost(t).RunInVM(ctx, req)
	if KindOf(err) != Canceled || !errors.Is(err, enough) || time.Since(began) > testenv.Patience {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}

func TestSignalsReachTheCommand(t *testing.T) {
	signals := make(chan syscall.Signal, 1)
	req := shell(`trap 'echo asked; exit 9' INT; echo ready; sleep 30 & wait`)
	req.Signals = signals
	req.Stdout = writer(func(b []byte) (int, error) {
		if strings.Contains(string(b), "ready") {
			signals <- syscall.SIGINT
		}
		return len(b), nil
	})
	r, err := onHost(t).RunInVM(t.Context(), req)
	if err != nil || r.ExitCode != 9 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestEarlySignalEndsRun(t *testing.T) {
	p := onHost(t)
	// The first run creates the folder of the machines.
	if _, err := p.RunInVM(t.Context(), shell("true")); err != nil {
		t.Fatal(err)
	}
	signals := make(chan syscall.Signal)
	reported := make(chan struct{})
	go func() {
		signals <- syscall.SIGINT
		close(reported)
	}()
	req := shell(`sleep 30`)
	req.Signals = signals
	req.OnStart = func(RunStart) { <-reported; time.Sleep(50 * time.Millisecond) }
	if _, err := p.RunInVM(t.Context(), req); KindOf(err) != Canceled || !strings.Contains(err.Error(), "interrupt") {
		t.Errorf("%v", err)
	}
}

func TestFailingWriterEndsRun(t *testing.T) {
	req := shell(`while :; do echo more; done`)
	req.Stdout = writer(func([]byte) (int, error) { return 0, syscall.ENOSPC })
	_, err := onHost(t).RunInVM(t.Context(), req)
	if KindOf(err) != Exhausted || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%s: %v", KindOf(err), err)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

func TestHostFallbackNeedsPermission(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	p, err := New(Options{CacheDir: t.TempDir(), StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.RunInVM(t.Context(), RunInVMRequest{Environment: "debian:12", Argv: []string{"touch", ran}})
	if KindOf(err) != Unavailable || HintOf(err) != "pyro doctor" {
		t.Errorf("%s: %v", KindOf(err), err)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("it ran on the host")
	}
}
