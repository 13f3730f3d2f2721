//go:build machine

package test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestDeliveredIsolationIsNamed checks that JSON output and the footer contain the isolation level.
// It tests each level that this host supports.
func TestDeliveredIsolationIsNamed(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]*program{"tcg": newProgram(t).emulated(), "gvisor": newProgram(t).sandboxed()} {
		var r pyro.RunResult
		out := p.run(nil, "run", environment, "--json", "--", "uname", "-r")
		if err := json.Unmarshal([]byte(out.stdout), &r); err != nil || string(r.Isolation) != want || r.ExecutionMode != pyro.Guest {
			t.Errorf("%s: %+v, %v", want, out, err)
		}
		if (want == "gvisor") != strings.Contains(r.Stdout, "gvisor") {
			t.Errorf("%s, and the kernel calls itself %q", want, r.Stdout)
		}
		if out := p.in("true"); !strings.Contains(out.stderr, " isolation="+want+" ") {
			t.Errorf("%s: %+v", want, out)
		}
		// The flag must override the environment variable.
		if out := p.with("PYRO_ISOLATION", "kvm").run(nil, "run", "--isolation", want, environment, "--", "true"); !strings.Contains(out.stderr, " isolation="+want+" ") {
			t.Errorf("%s by the flag: %+v", want, out)
		}
	}
}

// TestUnavailableIsolation checks that requesting an unavailable isolation level is an error with a
// reason. Only the level auto tries the next level.
func TestUnavailableIsolation(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := newProgram(t).with("PYRO_RUNSC", filepath.Join(t.TempDir(), "missing"))
	for _, flags := range [][]string{nil, {"--allow-host-compat"}} {
		r := p.run(nil, append(append([]string{"run", "--isolation", "gvisor"}, flags...), environment, "--", "true")...)
		if r.code != 125 || !strings.Contains(r.stderr, `"gvisor": find pyro-runsc`) || !strings.Contains(r.stderr, "pyro: hint: make build") {
			t.Errorf("%q: %+v", flags, r)
		}
	}
	if r := p.run(nil, "run", "--isolation", "auto", environment, "--", "true"); r.code != 0 || strings.Contains(r.stderr, "isolation=gvisor") {
		t.Errorf("auto: %+v", r)
	}
	if r := p.run(nil, "run", "--isolation", "xen", environment, "--", "true"); r.code != 125 || !strings.Contains(r.stderr, "auto, kvm, gvisor, tcg") {
		t.Errorf("xen: %+v", r)
	}
}

// TestSandboxOutOfMemory checks the reported result when a sandbox runs out of memory, and that the
// machine ends.
func TestSandboxOutOfMemory(t *testing.T) {
	t.Parallel()
	p := newProgram(t).sandboxed()
	var r pyro.RunResult
	out := p.run(nil, "run", environment, "--mem-mib=128", "--json", "--", "tail", "/dev/zero")
	if err := json.Unmarshal([]byte(out.stdout), &r); err != nil {
		t.Fatalf("%v: %+v", err, out)
	}
	if r.UnlimitedReason != "" {
		testenv.Lacks(t, "bounds for sandboxes: ", r.UnlimitedReason)
	}
	if out.code != 137 || !r.OutOfMemory || r.Signal != 9 || r.ExitCode != 137 {
		t.Errorf("%d, %+v", out.code, r)
	}
	out = p.run(nil, "run", environment, "--mem-mib=128", "--", "tail", "/dev/zero")
	if out.code != 137 || !strings.Contains(out.stderr, "ran out of its 128 MiB of memory") || !strings.Contains(out.stderr, "use a larger --mem-mib") {
		t.Errorf("%+v", out)
	}
}
