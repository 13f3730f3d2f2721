package guest

import (
	"strings"
	"testing"
)

func TestAbilities(t *testing.T) {
	for words, want := range map[string]Abilities{
		"": {},
		"clock disks cgroups hold devices network oom-score": ofVirtualMachine,
		"devices cgroups max-processes=2048":                 {Cgroups: true, Devices: true, MaxProcesses: 2048},
	} {
		if got, err := ParseAbilities(strings.Fields(words)); err != nil || got != want {
			t.Errorf("%q: %+v, %v", words, got, err)
		}
	}
	for _, words := range []string{"kernel", "hold", "max-processes", "max-processes=0", "max-processes=x", "processes=3", "cgroups=1"} {
		if got, err := ParseAbilities(strings.Fields(words)); err == nil {
			t.Errorf("%q: %+v", words, got)
		}
	}
}
