package guest

import (
	"strings"
	"testing"
)

// timers returns a part of a timer list, in the format of Linux 6.1.
func timers(device, mult string) string {
	return `Timer List Version: v0.9
now at 88574127922 nsecs

Tick Device: mode:     1
Broadcast device
Clock Event Device: <NULL>
tick_broadcast_mask: 0

Tick Device: mode:     1
Per CPU device: 0
Clock Event Device: ` + device + `
 max_delta_ns:   34359738371
 min_delta_ns:   1000
 mult:           ` + mult + `
 shift:          32
 mode:           3
`
}

func TestCheckTimer(t *testing.T) {
	for _, c := range []struct{ device, mult, err string }{
		{"lapic", "268435456", ""},
		{"lapic", "268400000", ""},
		{"lapic", "140000000", ""},
		{"lapic", "120000000", "0.447 times"},
		{"lapic", "300000000", "1.118 times"},
		{"lapic", "0", "0.000 times"},
		{"<NULL>", "0", "no timer"},
		{"lapic-deadline", "1", ""},
		{"arch_sys_timer", "1", ""},
	} {
		err := checkTimer(timers(c.device, c.mult))
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s with %s: %v", c.device, c.mult, err)
		}
	}
	if err := checkTimer(""); err != nil {
		t.Error(err)
	}
}
