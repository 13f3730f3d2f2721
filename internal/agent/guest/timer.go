package guest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// timerList is the kernel's list of clocks and timers.
const timerList = "/proc/timer_list"

// TimerWrong begins the line that init prints if the kernel has measured a wrong frequency for the
// processor's timer. Then init powers the machine off.
const TimerWrong = "pyro-init: wrong timer"

// The timer of a local APIC counts nanoseconds, in QEMU and in KVM. Linux divides its frequency by
// apicDivisor.
const apicDivisor = 16

// The measured frequency can be too low, because Linux sets a timer again that expires early. If
// the frequency is too high, all timers expire late.
const (
	lowestFrequency  = 0.5 // of the real frequency
	highestFrequency = 1.05
)

// checkTimer returns an error if a processor has no timer, or a timer with a wrong frequency. The
// parameter list is the content of timerList.
//
// Linux measures the frequency of a local APIC's timer for 100 ms during the boot. If the host did
// not run the machine for a part of this time, the result is wrong. If it is far too low, Linux
// does not use the timer, and no sleep ever ends.
func checkTimer(list string) error {
	var processor bool // whether the device belongs to a processor
	var device string
	var mult uint64 // ticks of the device in 2^shift nanoseconds
	for line := range strings.Lines(list) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		switch key {
		case "Broadcast device":
			processor = false
		case "Per CPU device":
			processor = true
		case "Clock Event Device":
			device = value
			if processor && device == "<NULL>" {
				return errors.New("a processor has no timer")
			}
		case "mult":
			mult, _ = strconv.ParseUint(value, 10, 32)
		case "shift":
			shift, _ := strconv.ParseUint(value, 10, 6)
			frequency := float64(mult) * apicDivisor / float64(uint64(1)<<shift)
			if processor && device == "lapic" && (frequency < lowestFrequency || frequency > highestFrequency) {
				return fmt.Errorf("the kernel has measured %.3f times its frequency", frequency)
			}
		}
	}
	return nil
}
