//go:build machine

package test

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro"
)

// readiness returns the state of the environment's preparation, as doctor reports it.
func (p *program) readiness() pyro.Preparation {
	p.t.Helper()
	r := p.run(nil, "doctor", "--environment", environment, "--json")
	var report pyro.DoctorReport
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil || report.Environment == nil {
		p.t.Fatalf("%v: %+v", err, r)
	}
	last := report.Checks[len(report.Checks)-1]
	warm := report.Environment.Status == pyro.Warm
	if last.Name != "environment" || warm != (last.Status == pyro.CheckOK) || !warm && last.Hint != "pyro prepare "+environment {
		p.t.Errorf("got %+v, and the check reports %+v", *report.Environment, last)
	}
	return *report.Environment
}

// prepare runs pyro prepare for the environment.
func (p *program) prepare(flags ...string) (r pyro.PrepareResult) {
	p.t.Helper()
	out := p.must(append([]string{"prepare", environment, "--json"}, flags...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
	if r.Status != pyro.Warm || r.Environment != environment || r.Digest == "" || r.Made != (len(r.Steps) > 0) {
		p.t.Errorf("%+v", r)
	}
	return r
}

// templates returns the files in the cache's templates that have the given name.
func (p *program) templates(name string) []string {
	p.t.Helper()
	files, err := filepath.Glob(filepath.Join(p.cache, "templates", "*", name))
	if err != nil || len(files) == 0 {
		p.t.Fatalf("no %s in the templates: %v", name, err)
	}
	return files
}

// TestPrepare checks the states of a preparation. A cold preparation must become warm. If data is
// changed or damaged, the preparation must become stale and must be repeated.
func TestPrepare(t *testing.T) {
	t.Parallel()
	isolation := cmp.Or(os.Getenv("PYRO_ISOLATION"), "gvisor")
	p := workspaces(t).withCache().with("PYRO_ISOLATION", isolation)
	expect := func(want pyro.PreparationStatus, why string) {
		t.Helper()
		if r := p.readiness(); r.Status != want || !strings.Contains(r.Reason, why) || string(r.Isolation) != isolation {
			t.Errorf("%+v, not %s for %q", r, want, why)
		}
	}
	expect(pyro.Cold, "there is no ")
	if r := p.prepare(); !r.Made || r.Before != pyro.Cold || string(r.Isolation) != isolation {
		t.Errorf("the first time: %+v", r)
	}
	expect(pyro.Warm, "")
	if r := p.prepare(); r.Made || r.Before != pyro.Warm {
		t.Errorf("again: %+v", r)
	}

	// Damage must be detected, even if the recorded state says that the preparation is warm.
	harms := []func(string) error{
		func(dir string) error { return os.WriteFile(filepath.Join(dir, "template.json"), []byte("{}"), 0o600) },
		func(dir string) error {
			file := filepath.Join(dir, "state")
			if _, err := os.Stat(file); err != nil {
				file = filepath.Join(dir, "image.erofs")
			}
			return errors.Join(os.Chmod(file, 0o600), os.Truncate(file, 100))
		},
	}
	if emulated() { // each damage boots a machine, which takes long under emulation
		harms = harms[1:]
	}
	for _, harm := range harms {
		for _, record := range p.templates("template.json") {
			if err := harm(filepath.Dir(record)); err != nil {
				t.Fatal(err)
			}
		}
		expect(pyro.Stale, "is damaged")
		if r := p.prepare(); !r.Made || r.Before != pyro.Stale {
			t.Errorf("damaged: %+v", r)
		}
		expect(pyro.Warm, "")
	}

	// With a network, QEMU needs a different template.
	if r := p.prepare("--network"); !r.Network || r.Made != (isolation != "gvisor") {
		t.Errorf("with a network: %+v", r)
	}
	if r := p.readiness(); r.NetworkStatus != pyro.Warm {
		t.Errorf("with a network: %+v", r)
	}

	// Another build of pyro can have a different guest agent.
	p.with("PYRO_GUEST", otherAgent(t))
	r := p.prepare()
	if !r.Made || r.Before != pyro.Stale || !strings.Contains(r.Reason, "the guest agent of this pyro has changed since it was prepared") {
		t.Errorf("another agent: %+v", r)
	}
	expect(pyro.Warm, "")
}

// TestPrepareAgain checks that --force rebuilds everything while a workspace runs. A normal run
// must use the result.
func TestPrepareAgain(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := workspaces(t).withCache().with("PYRO_ISOLATION", "gvisor")
	p.prepare()
	id := p.create()
	before, err := os.Stat(p.templates("image.erofs")[0])
	if err != nil {
		t.Fatal(err)
	}
	if r := p.prepare("--force"); !r.Made || r.Before != pyro.Warm || r.Steps[0].Name != "forget" {
		t.Errorf("%+v", r)
	}
	if after, err := os.Stat(p.templates("image.erofs")[0]); err != nil || os.SameFile(before, after) {
		t.Errorf("it is the same image: %v", err)
	}
	if out := p.shell(id, "ls / && python3 -c 'print(6*7)'"); !strings.Contains(out, "42") {
		t.Error(out)
	}
	if r := p.in("true"); r.code != 0 {
		t.Errorf("%+v", r)
	}
	if list := p.list(); len(list) != 1 {
		t.Errorf("workspaces: %v", list)
	}
}

// TestPrepareIsInterrupted checks that an interrupted preparation leaves no workspace.
func TestPrepareIsInterrupted(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := workspaces(t).withCache().with("PYRO_ISOLATION", "gvisor")
	running := p.start("prepare", environment)
	for began := time.Now(); time.Since(began) < patience; time.Sleep(time.Millisecond) { // waits until its workspace is being created
		if made, _ := os.ReadDir(filepath.Join(p.state, "workspaces")); len(made) > 0 {
			break
		}
	}
	running.Process.Signal(syscall.SIGTERM)
	if r := running.end(); r.code != 143 || !strings.Contains(r.stderr, "ended by signal: terminated") {
		t.Errorf("%+v", r)
	}
	if left := p.list(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// otherAgent returns the path of a modified copy of the guest agent.
func otherAgent(t *testing.T) string {
	t.Helper()
	packed, err := os.Open("../internal/guest/files/pyro-guest-" + runtime.GOARCH + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	r, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	program, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "pyro-guest")
	if err := os.WriteFile(path, append(program, 0), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
