package program

import "syscall"

// Signals contains the signals that users can send. The keys are the names without SIG. Each
// interface offers only the signals that its contract names.
var Signals = map[string]syscall.Signal{
	"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP,
	"QUIT": syscall.SIGQUIT, "TSTP": syscall.SIGTSTP, "CONT": syscall.SIGCONT,
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
}
