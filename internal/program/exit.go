package program

import (
	"syscall"
	"time"
)

// Exit is the outcome of a program that has ended. The database stores its JSON form.
type Exit struct {
	Code        int    `json:"exit_code"` // 0 to 255; 128 + Signal if a signal ended it; 126 or 127 if it was not started
	Signal      int    `json:"signal,omitempty"`
	TimedOut    bool   `json:"timed_out,omitempty"`
	NotRun      string `json:"not_run,omitempty"`       // why it was not started; empty: it was started.
	OutOfMemory bool   `json:"out_of_memory,omitempty"` // the kernel killed a process in the machine because memory ran out.
	OutputHeld  bool   `json:"output_held,omitempty"`   // another process has not closed the output yet.

	Duration time.Duration `json:"duration_ns"`
}

// Killed returns the Exit of a program that the signal sig has ended.
func Killed(sig syscall.Signal) Exit { return Exit{Code: 128 + int(sig), Signal: int(sig)} }
