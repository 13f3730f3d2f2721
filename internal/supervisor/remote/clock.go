package remote

import (
	"time"

	"golang.org/x/sys/unix"
)

// ProcessorTime returns the processor time that the threads of a process have used, without its
// children's. It is one system call. ok is false if there is no such process.
func ProcessorTime(pid int) (used time.Duration, ok bool) {
	// The number of another process's clock is made of its pid, as clock_getcpuclockid(3) makes it:
	// the lowest three bits select the scheduler's count, which is in nanoseconds.
	const scheduler = 2
	var t unix.Timespec
	if pid <= 0 || unix.ClockGettime(int32(^pid<<3|scheduler), &t) != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}
