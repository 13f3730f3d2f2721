package isolation

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// unprovenDriver is a fake driver. Its method Prove returns reason.
type unprovenDriver struct {
	machine.Driver
	isolation machine.Isolation
	reason    error
	asked     int
}

func (d *unprovenDriver) Isolation() machine.Isolation { return d.isolation }
func (d *unprovenDriver) Prove(ctx context.Context, _ progress.Func) error {
	d.asked++
	return d.reason
}

func TestStrongestProvenIsolationIsChosen(t *testing.T) {
	kvm := &unprovenDriver{isolation: machine.KVM, reason: errors.New("no /dev/kvm")}
	tcg := &unprovenDriver{isolation: machine.TCG}
	all := []machine.Driver{kvm, tcg}
	d, emulated, err := first(t.Context(), all, nil)
	if err != nil || d.Isolation() != machine.TCG || emulated == nil || emulated.Error() != "kvm: no /dev/kvm" {
		t.Errorf("%v, %v, %v", d, emulated, err)
	}
	kvm.reason = nil
	if d, emulated, err := first(t.Context(), all, nil); err != nil || d.Isolation() != machine.KVM || emulated != nil || tcg.asked != 1 {
		t.Errorf("got %v, %v, %v; %d calls of tcg", d, emulated, err, tcg.asked)
	}
}

func TestNoIsolationReportsEveryReason(t *testing.T) {
	kvm := &unprovenDriver{isolation: machine.KVM, reason: errors.New("no /dev/kvm")}
	tcg := &unprovenDriver{isolation: machine.TCG, reason: errors.New("QEMU is missing")}
	host := &unprovenDriver{isolation: machine.None}
	p := &Drivers{[]machine.Driver{tcg, kvm}, []machine.Isolation{machine.KVM, machine.TCG}, host}

	_, _, err := p.Choose(t.Context(), machine.Auto, false, nil)
	if fault.KindOf(err) != fault.Unavailable || fault.HintOf(err) != "pyro doctor" {
		t.Errorf("%s, hint %q", fault.KindOf(err), fault.HintOf(err))
	}
	if text := err.Error(); !strings.Contains(text, "kvm: no /dev/kvm; tcg: QEMU is missing") {
		t.Error(text)
	}
	if host.asked != 0 {
		t.Error("host_compat was looked at without leave")
	}

	tcg.reason = fault.Wrap(kvm.reason, "prove accelerator", "tcg")
	if _, _, err := p.Choose(t.Context(), machine.Auto, false, nil); !strings.HasSuffix(err.Error(), ": kvm and tcg: no /dev/kvm") {
		t.Errorf("one reason for both: %v", err)
	}

	d, reason, err := p.Choose(t.Context(), machine.Auto, true, nil)
	if err != nil || d.Isolation() != machine.None || !strings.Contains(reason.Error(), "no /dev/kvm") {
		t.Errorf("with leave: %v, %v, %v", d, reason, err)
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if d, _, err := p.Choose(ctx, machine.Auto, true, nil); err == nil {
		t.Errorf("a cancelled choice must not end on the host: %v", d)
	}
}

// TestExplicitIsolationNeverFallsBack checks that neither another level nor the host replaces a
// requested level that does not work.
func TestExplicitIsolationNeverFallsBack(t *testing.T) {
	kvm := &unprovenDriver{isolation: machine.KVM, reason: fault.Wrap(errors.New("no /dev/kvm"), "prove accelerator", "kvm")}
	third := &unprovenDriver{isolation: "third"}
	gvisor, tcg, host := &unprovenDriver{isolation: machine.GVisor}, &unprovenDriver{isolation: machine.TCG}, &unprovenDriver{isolation: machine.None}
	p := &Drivers{[]machine.Driver{tcg, third, gvisor, kvm}, []machine.Isolation{machine.KVM, machine.GVisor, machine.TCG}, host}
	_, _, err := p.Choose(t.Context(), machine.KVM, true, nil)
	if err == nil || !strings.Contains(err.Error(), `"kvm": no /dev/kvm`) || fault.HintOf(err) == "" || gvisor.asked+tcg.asked+host.asked > 0 {
		t.Errorf("got %v, hint %q; %d calls of other drivers", err, fault.HintOf(err), gvisor.asked+tcg.asked+host.asked)
	}
	if d, _, err := p.Choose(t.Context(), machine.TCG, false, nil); err != nil || d.Isolation() != machine.TCG || gvisor.asked > 0 {
		t.Errorf("got %v, %v; %d calls of gvisor", d, err, gvisor.asked)
	}
	if d, _, err := p.Choose(t.Context(), machine.Auto, false, nil); err != nil || d.Isolation() != machine.GVisor {
		t.Errorf("auto: %v, %v", d, err)
	}
	if d, _, err := p.Choose(t.Context(), "third", false, nil); err != nil || d != third || third.asked != 1 {
		t.Errorf("a driver that is not in the order of auto: %v, %v", d, err)
	}
	for _, level := range []machine.Isolation{"fourth", machine.None} {
		if d, _, err := p.Choose(t.Context(), level, true, nil); fault.KindOf(err) != fault.Unsupported {
			t.Errorf("%s: %v, %v", level, d, err)
		}
	}
	if d, err := p.Of(machine.None); err != nil || d != host {
		t.Errorf("%v, %v", d, err)
	}
}

func TestFullDiskDoesNotChangeIsolation(t *testing.T) {
	kvm := &unprovenDriver{isolation: machine.KVM, reason: fault.Wrap(syscall.ENOSPC, "fetch", "guest kernel")}
	tcg := &unprovenDriver{isolation: machine.TCG}
	if _, _, err := first(t.Context(), []machine.Driver{kvm, tcg}, nil); fault.KindOf(err) != fault.Exhausted || tcg.asked > 0 {
		t.Errorf("got %v; %d calls of tcg", err, tcg.asked)
	}
}
