//go:build machine

package test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	for _, c := range []struct {
		flags string
		argv  []string
		code  int
		said  string
	}{
		{"", []string{"true"}, 0, "exit_code=0"},
		{"", []string{"sh", "-c", "exit 3"}, 3, "exit_code=3"},
		{"", []string{"/etc/passwd"}, 126, "permission denied"},
		{"", []string{"no-such-command"}, 127, "no-such-command"},
		{"", []string{"sh", "-c", "kill -TERM $$"}, 143, "exit_code=143"},
		{"--timeout-seconds=1", []string{"sleep", "1000"}, 124, "the command timed out after 1 s"},
		{"--ttl-seconds=2", []string{"sleep", "1000"}, 124, "the machine's time to live of 2 s is over"},
	} {
		args := append(append([]string{"run", environment}, strings.Fields(c.flags)...), append([]string{"--"}, c.argv...)...)
		r := p.run(nil, args...)
		if r.code != c.code || !strings.Contains(r.stderr, c.said) || r.stdout != "" {
			t.Errorf("%q: exit code %d, not %d: %q %q", args, r.code, c.code, r.stdout, r.stderr)
		}
	}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	r := p.run(nil, "run", "-q", environment, "--", "sh", "-c", "echo out; echo err >&2")
	if r.stdout != "out\n" || r.stderr != "err\n" {
		t.Errorf("stdout %q, stderr %q", r.stdout, r.stderr)
	}
	// Every byte must pass through in both directions, and then the end of the input.
	random := noise(4 << 20)
	r = p.run(bytes.NewReader(random), "run", environment, "--", "cat")
	if r.code != 0 || r.stdout != string(random) {
		t.Errorf("wrote %d bytes, read %d, or they differ: %s", len(random), len(r.stdout), r.stderr)
	}
	if r = p.run(strings.NewReader("b\na\n"), "run", environment, "--", "sort"); r.stdout != "a\nb\n" {
		t.Errorf("sorted: %q", r.stdout)
	}
}

// noise returns reproducible random bytes.
func noise(size int) []byte {
	b := make([]byte, size)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func TestJSON(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := newProgram(t)
	var r pyro.RunResult
	decode := func(args ...string) map[string]any {
		t.Helper()
		out := p.run(nil, append([]string{"run", environment, "--json"}, args...)...)
		r = pyro.RunResult{}
		if err := json.Unmarshal([]byte(out.stdout), &r); err != nil {
			t.Fatalf("%v: %q %q", err, out.stdout, out.stderr)
		}
		if out.code != r.ExitCode {
			t.Errorf("exit code %d, in JSON %d", out.code, r.ExitCode)
		}
		var fields map[string]any
		json.Unmarshal([]byte(out.stdout), &fields)
		return fields
	}
	fields := decode("--", "sh", "-c", `printf '\377\000'; echo text >&2; exit 5`)
	stdout, stderr := r.Output()
	if string(stdout) != "\xff\x00" || r.StdoutEncoding != pyro.Base64 || string(stderr) != "text\n" || r.StderrEncoding != pyro.UTF8 || r.ExitCode != 5 {
		t.Errorf("%+v", r)
	}
	for _, name := range []string{"stdout", "stderr", "exit_code", "duration_ms", "environment", "execution_mode", "isolation", "timings"} {
		if fields[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
	if r.ExecutionMode != pyro.Guest || r.Isolation == pyro.IsolationNone || r.Environment != environment || len(r.Timings) == 0 || r.DurationMS <= 0 {
		t.Errorf("%+v", r)
	}
	if decode("--timeout-seconds=1", "--", "sleep", "1000"); !r.TimedOut || r.ExitCode != 124 || r.TimeLimit != "timeout_seconds" {
		t.Errorf("%+v", r)
	}
	if decode("--mem-mib=256", "--", "tail", "/dev/zero"); !r.OutOfMemory || r.ExitCode == 0 || r.TimedOut {
		t.Errorf("%+v", r)
	}
	if decode("--", "no-such-command"); r.NotRun == "" || r.ExitCode != 127 {
		t.Errorf("%+v", r)
	}
}

// TestTooManyArguments uses the Go API, because a shell can't pass so many arguments.
func TestTooManyArguments(t *testing.T) {
	p, err := pyro.New(pyro.Options{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for name, argv := range map[string][]string{
		"one":  {"echo", strings.Repeat("x", 10<<20)},
		"many": append([]string{"echo"}, strings.Split(strings.Repeat("xxxxxxx ", 10<<17), " ")...),
	} {
		_, err := p.RunInVM(t.Context(), pyro.RunInVMRequest{Environment: environment, Argv: argv})
		if pyro.KindOf(err) != pyro.Invalid || !strings.Contains(err.Error(), "bytes of arguments") || len(err.Error()) > 200 || pyro.HintOf(err) == "" {
			t.Errorf("%s: %.300v", name, err)
		}
	}
	// The kernel of the guest accepts fewer arguments than pyro. So the command fails to start.
	r, err := p.RunInVM(t.Context(), pyro.RunInVMRequest{Environment: environment, Argv: []string{"echo", strings.Repeat("x", 1<<20)}})
	if err != nil || r.ExitCode != 126 || r.NotRun == "" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestMuchOutput sends a gigabyte to a slow reader, so that all buffers become full.
func TestMuchOutput(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	const maxMemoryKiB = 64 << 10
	total := 1 << 30
	if emulated() || testing.Short() {
		total /= 4
	}
	block := noise(mib)
	p := newProgram(t)
	r := p.command("run", environment, "--timeout-seconds", "240", "--", "sh", "-c",
		fmt.Sprintf(`cat >/tmp/1; for i in 1 2 3 4 5 6 7 8; do cat /tmp/1 /tmp/1 /tmp/1 /tmp/1; done >/tmp/32; i=0; while [ $i -lt %d ]; do cat /tmp/32; i=$((i+1)); done`, total>>25))
	r.Stdin = bytes.NewReader(block)
	var stderr bytes.Buffer
	r.Stderr = &stderr
	out, err := r.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	got, want := sha256.New(), sha256.New()
	piece := make([]byte, mib)
	if _, err := io.ReadFull(out, piece[:1]); err != nil {
		t.Fatal(err, stderr.String())
	}
	time.Sleep(3 * time.Second) // lets the buffers become full
	got.Write(piece[:1])
	peak := 0
	for read := 1; ; {
		n, err := out.Read(piece)
		got.Write(piece[:n])
		read += n
		if n > 0 && read < total { // before the output ends
			peak = max(peak, peakKiB(t, r.Process.Pid))
		}
		if err != nil {
			if read != total {
				t.Errorf("%d bytes, not %d: %v", read, total, err)
			}
			break
		}
	}
	if err := r.Wait(); err != nil {
		t.Error(err, stderr.String())
	}
	for range total / mib {
		want.Write(block)
	}
	if !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		t.Error("the output differs from the input")
	}
	t.Logf("pyro took up to %d KiB; %s", peak, stderr.String())
	if peak == 0 || peak > maxMemoryKiB {
		t.Errorf("pyro took %d KiB", peak)
	}
	p.checkNoLeftovers()
}

// peakKiB returns the peak memory of a process, in KiB.
func peakKiB(t *testing.T, pid int) (kib int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	fmt.Sscan(rest, &kib)
	return kib
}

func TestBackgroundChildHoldsOutput(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	if r := p.in("sh", "-c", "sleep 1000 & echo started"); r.code != 0 || r.stdout != "started\n" {
		t.Errorf("%+v", r)
	}
}

func TestEightConcurrentRuns(t *testing.T) {
	p := newProgram(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			cmd := p.command("run", "-q", environment, "--", "echo", fmt.Sprint(i))
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if out, err := cmd.Output(); err != nil || string(out) != fmt.Sprintln(i) {
				t.Errorf("%v: %q %q", err, out, stderr.String())
			}
		})
	}
	all.Wait()
	p.checkNoLeftovers()
}
