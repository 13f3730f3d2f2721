package remote

import (
	"time"

	"golang.org/x/sys/unix"
)

// ProcessorTime returns the processor time that the threads of a process have used. It excludes
// child processes. It needs only one system call. ok is false if there is no such process.
func ProcessorTime(pid int) (used time.Duration, ok bool) {
	// clock_getcpuclockid(3) derives the clock ID of another process from its PID in this way. The
	// lowest three bits select the scheduler's clock, which counts nanoseconds.
	const scheduler = 2
	var t unix.Timespec
	if pid <= 0 || unix.ClockGettime(int32(^pid<<3|scheduler), &t) != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}
