//go:build machine

package qemu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/machinetest"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// patience is the maximum duration of each step. It stops tests that hang.
var patience = testenv.Patience

// phases collects progress reports.
type phases struct {
	mu  sync.Mutex
	all []string
}

func (p *phases) report(e progress.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, e.Phase)
}

func (p *phases) has(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Contains(strings.Join(p.all, "\n"), text)
}

// started is a running machine with a connection to its agent.
type started struct {
	machine.Machine
	agent *client.Client
	heard *phases
}

// startSmall starts a small machine and renews its identity.
func startSmall(t *testing.T, d *Driver, root machine.Root) *started {
	t.Helper()
	return startWith(t, d, machine.Spec{ID: "small-" + client.NewIdentity("").MachineID[:8], Dir: t.TempDir(), Root: root, VCPUs: 1, MemMiB: 256})
}

// startWith starts a machine and renews its identity.
func startWith(t *testing.T, d *Driver, spec machine.Spec) *started {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s := &started{heard: &phases{}}
	spec.Progress = s.heard.report
	var err error
	if s.Machine, err = d.Start(ctx, spec); err != nil {
		t.Fatalf("%v, after %q", err, s.heard.all)
	}
	t.Cleanup(func() { s.Close() })
	if s.agent, err = client.Dial(ctx, s.Link()); err == nil {
		t.Cleanup(func() { s.agent.Close() })
		err = s.agent.Renew(ctx, client.NewIdentity("small"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *started) works(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out bytes.Buffer
	end, err := s.agent.Exec(ctx, program.Command{Argv: []string{"ls", "/etc/hostname"}}, program.Attach{Stdout: &out})
	if err != nil || end.Code != 0 || out.String() != "/etc/hostname\n" {
		t.Fatalf("%+v, %v: %q", end, err, out.String())
	}
}

// TestTemplateFaults checks that two drivers make a template only once, and that a damaged template
// is made again.
func TestTemplateFaults(t *testing.T) {
	t.Parallel()
	root := machinetest.Debian(t)
	d := privateDirs(t)
	driver := func() *Driver { return driverIn(t, machine.TCG, d) }
	if err := driver().Prove(context.Background(), nil); err != nil {
		t.Fatal(err)
	}

	// Locks belong to open files, so two drivers behave like two processes.
	var racers [2]*started
	t.Run("Race", func(t *testing.T) {
		var racing sync.WaitGroup
		for i := range racers {
			racing.Go(func() { racers[i] = startSmall(t, driver(), root) })
		}
		racing.Wait()
		made, waited := 0, 0
		for _, s := range racers {
			if s == nil {
				t.FailNow()
			}
			s.works(t)
			if s.heard.has("saving the template") {
				made++
			}
			if s.heard.has("another pyro") {
				waited++
			}
		}
		if made != 1 || waited != 1 {
			t.Errorf("%d calls built the template, %d waited: %q, %q", made, waited, racers[0].heard.all, racers[1].heard.all)
		}
	})
	dir := onlyTemplate(t, d)

	for _, c := range []struct {
		name   string
		damage func(*testing.T)
		said   string
	}{
		{"FlippedByte", func(t *testing.T) { flip(t, filepath.Join(dir, templateRAM)) }, "template is damaged"},
		{"Truncated", func(t *testing.T) {
			if err := os.Truncate(filepath.Join(dir, templateOverlay), 4096); err != nil {
				t.Fatal(err)
			}
		}, "template is damaged"},
		{"NotAccepted", func(t *testing.T) { forge(t, dir) }, "could not be restored"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.damage(t)
			s := startSmall(t, driver(), root)
			s.works(t)
			if !s.heard.has(c.said) || !s.heard.has("saving the template") {
				t.Errorf("got reports %q, want the reason", s.heard.all)
			}
			again := startSmall(t, driver(), root)
			again.works(t)
			if len(again.heard.all) > 0 {
				t.Errorf("the new template is not used: %q", again.heard.all)
			}
		})
	}

	t.Run("RemovedWhileInUse", func(t *testing.T) {
		user := startSmall(t, driver(), root)
		if err := os.RemoveAll(d.Templates()); err != nil {
			t.Fatal(err)
		}
		user.works(t)
		s := startSmall(t, driver(), root)
		s.works(t)
		if !s.heard.has("saving the template") {
			t.Errorf("got reports %q, want the reason", s.heard.all)
		}
		user.works(t)
	})
	if left, _ := filepath.Glob(filepath.Join(d.Templates(), "*.part")); left != nil {
		t.Errorf("leftovers: %q", left)
	}
}

func onlyTemplate(t *testing.T, d dirs.Dirs) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(d.Templates(), "*", templateRAM))
	if err != nil || len(found) != 1 {
		t.Fatalf("%q, %v", found, err)
	}
	return filepath.Dir(found[0])
}

// flip changes one bit in the middle of a file.
func flip(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, info.Size()/2); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b, info.Size()/2); err != nil {
		t.Fatal(err)
	}
}

// forge replaces a template's state by one that QEMU rejects. It also changes the manifest, so that
// the checksums match.
func forge(t *testing.T, dir string) {
	t.Helper()
	state, record := filepath.Join(dir, templateState), filepath.Join(dir, "template.json")
	if err := os.Remove(state); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(state, []byte("no state of a machine"), 0o444); err != nil {
		t.Fatal(err)
	}
	digest, err := disk.Hash(state, nil)
	if err != nil {
		t.Fatal(err)
	}
	stamp, err := disk.StampOf(state)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	var r map[string]any
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	r["files"].(map[string]any)[templateState] = map[string]any{"digest": digest, "stamp": stamp}
	if b, err = json.Marshal(r); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(record, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestBrokenKVMIsDetected calls Prove in a process with its own mount namespace. There /dev/kvm is
// a device that only a group can use. Prove must boot a kernel and store the verdict. If KVM works
// on this host, the verdict is positive.
func TestBrokenKVMIsDetected(t *testing.T) {
	if os.Getenv(verdictHelper) != "" {
		proveTwice(t)
		return
	}
	testenv.NeedsRoot(t, "put a device in the place of another")
	if _, err := os.Stat(kvmDevice); err != nil {
		t.Skip("this host has no hardware virtualisation: ", err) // nothing can install it
	}
	d := privateDirs(t)
	machinetest.Debian(t)
	// The device is on a new file system, because the usual one might forbid devices.
	script := `mount --make-rprivate / && mount -t tmpfs -o dev tmpfs "$1" && mknod -m 660 "$1/kvm" c 10 232 && { (: <>"$1/kvm") || exit 77; } &&
chgrp 60666 "$1/kvm" && mount --bind "$1/kvm" /dev/kvm && exec "$2" -test.run '^TestBrokenKVMIsDetected$' -test.v`
	helper := exec.Command("unshare", "-m", "sh", "-c", script, "sh", t.TempDir(), os.Args[0])
	helper.Env = append(os.Environ(), verdictHelper+"="+d.Cache)
	out, err := helper.CombinedOutput()
	t.Logf("%s", out)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 77 {
		testenv.Lacks(t, "new devices")
	}
	if err != nil {
		t.Error(err)
	}
}

const verdictHelper = "PYRO_TEST_VERDICT_CACHE"

func proveTwice(t *testing.T) {
	d := dirs.Dirs{Cache: os.Getenv(verdictHelper)}
	var reasons []string
	for attempt := range 2 {
		var heard phases
		err := driverIn(t, machine.KVM, d).Prove(context.Background(), heard.report)
		if found := heard.has("testing this host's processor"); found != (attempt == 0) {
			t.Errorf("attempt %d: %q", attempt, heard.all)
		}
		reason := ""
		if err != nil {
			reason = err.Error()
		}
		reasons = append(reasons, reason)
	}
	if strings.Contains(reasons[0], "ermission") {
		t.Errorf("QEMU may not open the device: %s", reasons[0])
	}
	if reasons[0] != reasons[1] {
		t.Errorf("the verdict was not stored: %q", reasons)
	}
	// The same race has already tested emulation, whether or not KVM works.
	var heard phases
	if err := driverIn(t, machine.TCG, d).Prove(context.Background(), heard.report); err != nil || heard.has("testing this host's processor") {
		t.Errorf("%v, %q", err, heard.all)
	}
	t.Log("the verdict:", reasons[0])
}
