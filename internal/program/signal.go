package program

import (
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

// Signals contains the signals that users can send. The keys are the names without SIG. Each
// interface offers only the signals that its contract names.
var Signals = map[string]syscall.Signal{
	"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP,
	"QUIT": syscall.SIGQUIT, "TSTP": syscall.SIGTSTP, "CONT": syscall.SIGCONT,
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
}

var ignored uint64 // bits of the signals that this process ignored when it was started

// CatchIgnored makes sure that programs that this process starts do not ignore signals, even if its
// own starter did, as nohup does. A program inherits ignored signals, but not caught ones. The
// signals still have no effect on this process. Call CatchIgnored before the first program starts.
func CatchIgnored() {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return
	}
	_, mask, _ := strings.Cut(string(status), "\nSigIgn:\t")
	mask, _, _ = strings.Cut(mask, "\n")
	bits, _ := strconv.ParseUint(mask, 16, 64)
	var all []os.Signal
	for n := range 64 {
		sig := syscall.Signal(n + 1)
		// A terminal would send these two again and again to a process that catches them.
		if bits&(1<<n) != 0 && sig != syscall.SIGTTIN && sig != syscall.SIGTTOU {
			all = append(all, sig)
			ignored |= 1 << n
		}
	}
	if len(all) > 0 {
		signal.Notify(make(chan os.Signal, 1), all...)
	}
}

// NotIgnored returns the signals without those that CatchIgnored has found.
func NotIgnored(all ...syscall.Signal) (list []os.Signal) {
	for _, sig := range all {
		if ignored&(1<<(sig-1)) == 0 {
			list = append(list, sig)
		}
	}
	return list
}
