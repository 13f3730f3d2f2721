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

// unprovenDriver is a driver that proves itself, or fails to for a reason.
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

func TestTheStrongestProvenIsolationIsChosen(t *testing.T) {
	kvm := &unprovenDriver{isolation: machine.KVM, reason: errors.New("no /dev/kvm")}
	tcg := &unprovenDriver{isolation: machine.TCG}
	all := []machine.Driver{kvm, tcg}
	d, emulated, err := choose(t.Context(), all, nil)
	if err != nil || d.Isolation() != machine.TCG || emulated == nil || emulated.Error() != "kvm: no /dev/kvm" {
		t.Errorf("%v, %v, %v", d, emulated, err)
	}
	kvm.reason = nil
	if d, emulated, err := choose(t.Context(), all, nil); err != nil || d.Isolation() != machine.KVM || emulated != nil || tcg.asked != 1 {
		t.Errorf("%v, %v, %v; tcg was asked %d times", d, emulated, err, tcg.asked)
	}
}

func TestNoIsolationTellsEveryReason(t *testing.T) {
	kvm := &unprovenDriver{isolation: machine.KVM, reason: errors.New("no /dev/kvm")}
	tcg := &unprovenDriver{isolation: machine.TCG, reason: errors.New("QEMU is missing")}
	host := &unprovenDriver{isolation: machine.None}
	p := &Drivers{[]machine.Driver{kvm, tcg}, host}

	_, _, err := p.Choose(t.Context(), Auto, false, nil)
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
	if _, _, err := p.Choose(t.Context(), Auto, false, nil); !strings.HasSuffix(err.Error(), ": kvm and tcg: no /dev/kvm") {
		t.Errorf("one reason for both: %v", err)
	}

	d, reason, err := p.Choose(t.Context(), Auto, true, nil)
	if err != nil || d.Isolation() != machine.None || !strings.Contains(reason.Error(), "no /dev/kvm") {
		t.Errorf("with leave: %v, %v, %v", d, reason, err)
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if d, _, err := p.Choose(ctx, Auto, true, nil); err == nil {
		t.Errorf("a cancelled choice must not end on the host: %v", d)
	}
}

// TestWhatIsAskedForIsNeverReplaced: neither by another isolation nor by the host, where it can't be had.
func TestWhatIsAskedForIsNeverReplaced(t *testing.T) {
	kvm := &unprovenDriver{isolation: machine.KVM, reason: fault.Wrap(errors.New("no /dev/kvm"), "prove accelerator", "kvm")}
	gvisor, tcg, host := &unprovenDriver{isolation: machine.GVisor}, &unprovenDriver{isolation: machine.TCG}, &unprovenDriver{isolation: machine.None}
	p := &Drivers{[]machine.Driver{kvm, gvisor, tcg}, host}
	_, _, err := p.Choose(t.Context(), machine.KVM, true, nil)
	if err == nil || !strings.Contains(err.Error(), `"kvm": no /dev/kvm`) || fault.HintOf(err) == "" || gvisor.asked+tcg.asked+host.asked > 0 {
		t.Errorf("%v, hint %q; %d others were asked", err, fault.HintOf(err), gvisor.asked+tcg.asked+host.asked)
	}
	if d, _, err := p.Choose(t.Context(), machine.TCG, false, nil); err != nil || d.Isolation() != machine.TCG || gvisor.asked > 0 {
		t.Errorf("%v, %v; gvisor was asked %d times", d, err, gvisor.asked)
	}
	if d, _, err := p.Choose(t.Context(), Auto, false, nil); err != nil || d.Isolation() != machine.GVisor {
		t.Errorf("auto: %v, %v", d, err)
	}
}

func TestAFullDiskIsNoReasonForAnotherIsolation(t *testing.T) {
	kvm := &unprovenDriver{isolation: machine.KVM, reason: fault.Wrap(syscall.ENOSPC, "fetch", "guest kernel")}
	tcg := &unprovenDriver{isolation: machine.TCG}
	if _, _, err := choose(t.Context(), []machine.Driver{kvm, tcg}, nil); fault.KindOf(err) != fault.Exhausted || tcg.asked > 0 {
		t.Errorf("%v; tcg was asked %d times", err, tcg.asked)
	}
}
