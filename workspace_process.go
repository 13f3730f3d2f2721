package pyro

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
)

// Process is a command that was started.
type Process struct {
	Pid int // process ID in the workspace

	ctx     context.Context
	running program.Process
	done    <-chan struct{}
}

// Signal sends a signal to the command's process group. If the command has a terminal, the signal
// goes to the foreground process group of the terminal. The error is os.ErrProcessDone if the
// command has ended.
func (p *Process) Signal(sig os.Signal) error {
	number, ok := sig.(syscall.Signal)
	if !ok {
		return fault.Newf(Unsupported, "signal %v has no number", sig)
	}
	select {
	case <-p.done:
		return os.ErrProcessDone
	default:
	}
	err := p.running.Signal(p.ctx, number)
	if fault.KindOf(err) == NotFound {
		return os.ErrProcessDone
	}
	return err
}

// Kill calls Signal with SIGKILL.
func (p *Process) Kill() error { return p.Signal(syscall.SIGKILL) }

// ProcessState is the outcome of a command that has ended.
type ProcessState struct {
	pid  int
	exit program.Exit
}

// ExitCode returns the exit code, or 128+n if signal n ended the command.
func (s *ProcessState) ExitCode() int { return s.exit.Code }

// Success reports whether the command exited with code 0.
func (s *ProcessState) Success() bool { return s.exit.Code == 0 && s.exit.Signal == 0 }

// Signal returns the signal that ended the command, or 0.
func (s *ProcessState) Signal() syscall.Signal { return syscall.Signal(s.exit.Signal) }

// OutOfMemory reports whether the kernel killed processes because the machine ran out of memory.
func (s *ProcessState) OutOfMemory() bool { return s.exit.OutOfMemory }

// Pid returns the process ID that the command had in the workspace.
func (s *ProcessState) Pid() int { return s.pid }

// Duration returns how long the command ran.
func (s *ProcessState) Duration() time.Duration { return s.exit.Duration }

// String describes the end of the command, such as "exit status 1".
func (s *ProcessState) String() string {
	text := fmt.Sprintf("exit status %d", s.exit.Code)
	if s.exit.Signal != 0 {
		text = fmt.Sprintf("signal: %v", s.Signal())
	}
	if s.exit.OutOfMemory {
		text += " (out of memory)"
	}
	return text
}

// ExitError is the error for a command that ran but failed.
type ExitError struct {
	*ProcessState

	// Stderr contains the first and the last part of the standard error, if Output collected it.
	Stderr []byte
}

func (e *ExitError) Error() string { return e.ProcessState.String() }

// notStarted returns the error for a program that could not be executed.
func notStarted(name string, s *ProcessState) error {
	kind := Precondition
	if s.exit.Code == 127 { // the code that shells use for a program that was not found
		kind = NotFound
	}
	return fault.New(kind, "start", name, "%s", s.exit.NotRun)
}
