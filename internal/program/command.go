// Package program describes a program that runs in another process or machine.
//
// [Command] says what to run. [Attach] and [Process] connect a caller to the running program.
// [Exit] says how the program ended. [Log], [LogFile], [SharedLog], [HeadTail] and [Bounded] store
// its output.
//
// The command line, the Go package, the supervisor and the agent use these types. encode.go
// contains the only conversion to and from the protobuf form. The agent converts the protobuf form
// for the kernel.
package program

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"
	"slices"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Command describes a program to run. Only Argv is required.
type Command struct {
	ID      string // identifies the command in later calls; empty: a random ID
	Argv    []string
	Env     []string // NAME=VALUE; overrides variables of the environment.
	Cwd     string   // absolute path; empty: the user's home.
	User    string   // name or number, optionally with :group; empty: root.
	TTY     *Terminal
	Timeout time.Duration // after this time the command and its descendants are killed; 0: no limit

	// Secrets are secrets of the workspace that become environment variables. Only the supervisor
	// has their values. It replaces Secrets by entries in Env.
	Secrets []SecretEnv

	// KillRest kills the remaining descendants when the program has ended.
	KillRest bool
}

// SecretEnv names a secret of the workspace and the environment variable that gets its value.
type SecretEnv struct{ Secret, Env string }

// Terminal describes the terminal of a program. Cols and Rows are 1 to [MaxSide].
type Terminal struct {
	Cols, Rows int
	Term       string // the environment variable TERM; empty: xterm-256color
}

// MaxSide is the largest number of columns or rows of a terminal.
const MaxSide = 1000

// NewID returns a random ID for a command.
func NewID() string {
	var b [12]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Check returns an error of kind Invalid if Argv is empty or a text is not valid UTF-8.
func (c *Command) Check() error {
	if len(c.Argv) == 0 {
		return fault.Newf(fault.Invalid, "there is no command")
	}
	for _, text := range slices.Concat(c.Argv, c.Env, []string{c.Cwd, c.User}) {
		if !utf8.ValidString(text) {
			return fault.Newf(fault.Invalid, "%q is not UTF-8", text)
		}
	}
	return nil
}

// Attach connects a caller to a program until it ends.
type Attach struct {
	// Stdin is the program's input, which is read to its end. If it is nil, the input is empty. If
	// reading fails, the program is killed.
	Stdin io.Reader

	// Stdout and Stderr receive the output while the program runs. If one is nil, that output is
	// discarded. A slow writer slows down the program. If a writer fails, the program is killed.
	Stdout, Stderr io.Writer

	// Started is called once, when the program has started. It is not called if the program can't
	// be started. It must not block. It can be nil.
	Started func(Process)
}

// Process is a running program.
type Process interface {
	// PID returns the process ID inside the machine, or 0 if it is not known.
	PID() int
	// Signal sends a signal to the program's process group. If the program has a terminal, the
	// signal goes to the foreground group of the terminal. The error has kind NotFound if the
	// program has ended.
	Signal(ctx context.Context, sig syscall.Signal) error
	// Resize sets the size of the terminal. The error has kind NotFound if the program has ended.
	Resize(ctx context.Context, cols, rows int) error
}

// Controller signals and resizes programs. It identifies a program by the ID of its command.
type Controller interface {
	Signal(ctx context.Context, id string, sig syscall.Signal) error
	Resize(ctx context.Context, id string, cols, rows int) error
}

// NewProcess returns the running program of the command with the given ID.
func NewProcess(c Controller, id string, pid int) Process { return process{c, id, pid} }

type process struct {
	controller Controller
	id         string
	pid        int
}

func (p process) PID() int { return p.pid }

func (p process) Signal(ctx context.Context, sig syscall.Signal) error {
	return p.controller.Signal(ctx, p.id, sig)
}

func (p process) Resize(ctx context.Context, cols, rows int) error {
	return p.controller.Resize(ctx, p.id, cols, rows)
}

// Position is the number of bytes of each stream of a program that were transferred since its
// start.
type Position struct {
	Stdout uint64 `json:"stdout,omitempty"`
	Stderr uint64 `json:"stderr,omitempty"`
	Stdin  uint64 `json:"input,omitempty"`
}
