//go:build machine

package test

import (
	"bufio"
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestDemo checks that every step of the tour succeeds and that nothing remains, even if the tour
// is interrupted.
func TestDemo(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := workspaces(t).sandboxed()
	nothingLeft := func() {
		t.Helper()
		p.checkNoLeftovers()
		if left := p.list(); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
	r := p.run(nil, "demo")
	if r.code != 0 || strings.Contains(r.stdout, "failed in") || !regexp.MustCompile(`(?m)^\[summary\] environment=debian:12 isolation=gvisor steps=14 of 14 total=[0-9.]+s: nothing remains$`).MatchString(r.stdout) {
		t.Errorf("%+v", r)
	}
	for _, says := range []string{"[14/14] delete: ", "AssertionError: 7.5 != 5", "+    return sum(numbers) / len(numbers)", "the mean is 3.0", "1.1.1.1/443: not reached"} {
		if !strings.Contains(r.stdout, says) {
			t.Errorf("output has no %q", says)
		}
	}
	nothingLeft()

	var report struct {
		OK    bool
		Steps []struct {
			Name, Command, Output string
			OK                    bool
			MS                    float64
		}
	}
	if err := json.Unmarshal([]byte(p.must("demo", "--json")), &report); err != nil || !report.OK || len(report.Steps) != 14 {
		t.Errorf("%+v, %v", report, err)
	}
	for _, s := range report.Steps {
		if !s.OK || s.Output == "" || s.MS <= 0 || !strings.Contains(s.Command, "pyro ") {
			t.Errorf("%+v", s)
		}
	}
	nothingLeft()

	for _, step := range []string{"[1/14]", "[7/14]", "[11/14]"} {
		running := p.start("demo")
		for lines := bufio.NewScanner(running.out); lines.Scan() && !strings.HasPrefix(lines.Text(), step); {
		}
		running.Process.Signal(syscall.SIGINT)
		if r := running.end(); r.code != 130 || !strings.Contains(r.stderr, "ended by signal: interrupt") {
			t.Errorf("interrupted at %s: %+v", step, r)
		}
		nothingLeft()
	}
}

// TestDemoScript runs scripts/demo.sh, which "make demo" runs after the build. It checks that every
// step succeeds, and that the script ends and leaves nothing.
func TestDemoScript(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := workspaces(t).sandboxed()
	script, err := filepath.Abs("../scripts/demo.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := p.programFor(3*patience, script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	for _, says := range []string{"FROM THE HOST", "MCMXCIV", "DELETE $api/sandboxes/$id"} {
		if !strings.Contains(string(out), says) {
			t.Errorf("output has no %q", says)
		}
	}
	p.checkNoLeftovers()
	if left := p.list(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
