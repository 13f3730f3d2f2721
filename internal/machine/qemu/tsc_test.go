package qemu

import (
	"runtime"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/machine"
)

func TestMeasureTSC(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("this processor has no such counter")
	}
	// Two measurements must agree to within one part in a thousand. The frequency of any real
	// processor is between these limits.
	first, second := float64(measureTSC()), float64(measureTSC())
	if first < 500_000 || first > 10_000_000 || second < first*0.999 || second > first*1.001 {
		t.Errorf("measured %g and %g kHz", first, second)
	}
}

func TestFrequencyOnlyForEmulation(t *testing.T) {
	if line := kernelLine(machine.TCG, 2_500_000, false); !strings.Contains(line, "tsc_early_khz=2500000") {
		t.Errorf("emulated: %q", line)
	}
	for _, line := range []string{kernelLine(machine.KVM, 2_500_000, false), kernelLine(machine.TCG, 0, false)} {
		if strings.Contains(line, "tsc") {
			t.Errorf("the kernel calibrates its clock: %q", line)
		}
	}
}
