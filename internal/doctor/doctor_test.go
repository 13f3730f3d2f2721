package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/isolation"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// driver is a fake driver. Its method Prove returns reason.
type driver struct {
	machine.Driver
	isolation machine.Isolation
	reason    error
}

func (d driver) Isolation() machine.Isolation               { return d.isolation }
func (d driver) Prove(context.Context, progress.Func) error { return d.reason }

func examine(t *testing.T, drivers ...machine.Driver) map[string]Check {
	t.Helper()
	program := filepath.Join(t.TempDir(), "pyro-guest")
	if err := os.WriteFile(program, []byte("an agent"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PYRO_GUEST", program)
	d := dirs.Dirs{Cache: filepath.Join(t.TempDir(), "not", "there", "yet"), State: t.TempDir()}
	checks := map[string]Check{}
	for _, c := range Examine(t.Context(), Config{
		Dirs: d, Store: environment.Open(d), Drivers: func() (*isolation.Drivers, error) {
			return &isolation.Drivers{Known: drivers, Auto: []machine.Isolation{machine.KVM, machine.TCG}}, nil
		},
	}) {
		if c.Detail == "" || (c.Status == OK) != (c.Hint == "") && c.Status != Warn {
			t.Errorf("%+v", c)
		}
		checks[c.Name] = c
	}
	return checks
}

func TestOneIsolationIsEnough(t *testing.T) {
	checks := examine(t, driver{isolation: machine.KVM, reason: errors.New("it is broken")}, driver{isolation: machine.TCG})
	for name, want := range map[string]Status{"isolation_kvm": Warn, "isolation_tcg": OK, "isolation": OK, "guest_agent": OK, "state_folder": OK, "environments": Warn} {
		if checks[name].Status != want {
			t.Errorf("%s: %+v", name, checks[name])
		}
	}
	if !strings.Contains(checks["isolation_kvm"].Detail, "it is broken") || !strings.Contains(checks["isolation"].Detail, "tcg") {
		t.Errorf("%+v, %+v", checks["isolation_kvm"], checks["isolation"])
	}
}

func TestNoIsolationFails(t *testing.T) {
	missing := fault.New(fault.Unavailable, "find QEMU", "qemu", "not installed").WithHint("install it")
	checks := examine(t, driver{isolation: machine.KVM, reason: errors.New("no /dev/kvm")}, driver{isolation: machine.TCG, reason: missing})
	if c := checks["isolation"]; c.Status != Fail || c.Hint != "install it" {
		t.Errorf("%+v", c)
	}
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	if c := folder("cache_folder", filepath.Join(dir, "a", "b")); c.Status == Fail {
		t.Errorf("missing folder that can be created: %+v", c)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if c := folder("cache_folder", filepath.Join(file, "b")); c.Status != Fail {
		t.Errorf("a folder below a file: %+v", c)
	}
}
