package pyro

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
)

// Cmd is a command in a workspace. Its fields and methods work like the ones of exec.Cmd in
// os/exec. A Cmd can run only once. It has no time limit except its context.
//
// The history of the workspace contains the command: see [Workspace.Commands].
type Cmd struct {
	// Args is the program and its arguments. If the program name contains no slash, it is looked up
	// in the workspace's PATH.
	Args []string

	// Env lists extra environment variables in the form NAME=VALUE. If a name occurs twice, the
	// last value is used.
	Env []string

	// SecretEnv maps names of the workspace's secrets to the environment variables that get their
	// values. If a variable's name is empty, the variable gets the name of the secret.
	SecretEnv map[string]string

	// Dir is the working directory: an absolute path, or a path relative to /workspace. The default
	// is /workspace.
	Dir string

	// Stdin is the command's input. If it is nil, the input is empty. If a Read is still blocked
	// when the command ends, Wait does not wait for that Read.
	Stdin io.Reader

	// Stdout and Stderr receive the output as soon as the command writes it. Output for a nil
	// writer is discarded. A slow writer slows the command down, and a failing writer ends the
	// command. The two writers are never called at the same time.
	Stdout, Stderr io.Writer

	// TTY gives the command a terminal. All output then goes to Stdout.
	TTY *TTY

	// Process is the running command. Start sets it.
	Process *Process

	// ProcessState is the outcome of the command. Wait sets it, unless the outcome is unknown.
	ProcessState *ProcessState

	workspace *Workspace
	ctx       context.Context
	begun     bool
	waited    bool
	pipes     pipes
	done      chan struct{} // closed when the command has ended
	state     *ProcessState // set before done is closed, unless err is set
	err       error
}

// Command returns a command that runs a program in the workspace.
func (w *Workspace) Command(name string, arg ...string) *Cmd {
	return w.CommandContext(context.Background(), name, arg...)
}

// CommandContext is like Command, but when ctx ends, the command is killed with all processes that
// it started.
func (w *Workspace) CommandContext(ctx context.Context, name string, arg ...string) *Cmd {
	return &Cmd{Args: append([]string{name}, arg...), workspace: w, ctx: ctx}
}

// String returns the arguments, for people.
func (c *Cmd) String() string { return strings.Join(c.Args, " ") }

// Run starts the command and waits for its end. The error is an *ExitError if the command ran and
// failed. Every other error says why the command did not run or did not finish.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the command and returns its standard output, at most MaxOutput bytes: a command that
// prints more is ended, and the error has the kind Exhausted. If Stderr is nil, an *ExitError
// contains the first and the last part of the standard error.
func (c *Cmd) Output() ([]byte, error) {
	if c.Stdout != nil {
		return nil, c.errState("Stdout is already set")
	}
	stdout, stderr := program.Bounded{Budget: program.NewBudget(MaxOutput)}, program.HeadTail{}
	c.Stdout = &stdout
	if c.Stderr == nil {
		c.Stderr = &stderr
	}
	err := c.runBounded()
	if exit := (*ExitError)(nil); errors.As(err, &exit) {
		exit.Stderr = stderr.Bytes()
	}
	return stdout.Bytes(), err
}

// CombinedOutput runs the command and returns its standard output and standard error as one stream.
// The limit is the same as for Output.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	if c.Stdout != nil {
		return nil, c.errState("Stdout is already set")
	}
	if c.Stderr != nil {
		return nil, c.errState("Stderr is already set")
	}
	both := program.Bounded{Budget: program.NewBudget(MaxOutput)}
	c.Stdout, c.Stderr = &both, &both
	err := c.runBounded()
	return both.Bytes(), err
}

// runBounded runs the command. If the output exceeds MaxOutput bytes, the error says so.
func (c *Cmd) runBounded() error {
	err := c.Run()
	if errors.Is(err, program.ErrFull) {
		return fault.New(Exhausted, "run", c.String(), "it printed more than %d bytes", MaxOutput)
	}
	return err
}

// Start starts the command and returns as soon as it runs. If the program does not exist, the error
// has the kind NotFound. After a successful Start, call Wait to release the command's resources.
func (c *Cmd) Start() error {
	if c.begun {
		return c.errState("it was already started")
	}
	c.begun = true
	command, err := c.program()
	if err != nil {
		c.pipes.end()
		return err
	}
	c.done = make(chan struct{})
	started, process := make(chan struct{}), &Process{ctx: c.ctx, done: c.done}
	to := program.Attach{Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr, Started: func(p program.Process) {
		process.Pid, process.running = p.PID(), p
		close(started)
	}}
	ctx, stop := context.WithCancel(c.ctx)
	go func() {
		defer stop()
		defer close(c.done)
		defer c.pipes.end()
		id := c.workspace.WorkspaceID
		exit, _, err := c.workspace.pyro.workspaces.Exec(ctx, store.KindWorkspace, id, command, to, nil)
		if err != nil {
			c.err = causeOf(c.ctx, err)
			return
		}
		c.state = &ProcessState{pid: process.Pid, exit: exit.Exit}
	}()
	select {
	case <-started:
	case <-c.done:
		switch {
		case process.running != nil: // the command has already ended; Wait returns the outcome
		case c.err != nil:
			return c.err
		case c.state.exit.NotRun != "":
			return notStarted(c.Args[0], c.state)
		}
	}
	c.Process = process
	if c.TTY != nil {
		go followSize(ctx, c.TTY.Resize, process.running.Resize)
	}
	return nil
}

// Wait waits until the command has ended and all its output has been written. The error is an
// *ExitError if the command failed.
func (c *Cmd) Wait() error {
	switch {
	case c.Process == nil:
		return c.errState("it was not started")
	case c.waited:
		return c.errState("Wait was already called")
	}
	c.waited = true
	<-c.done
	if c.err != nil {
		return c.err
	}
	c.ProcessState = c.state
	if !c.state.Success() {
		return &ExitError{ProcessState: c.state}
	}
	return nil
}

// program checks the fields and returns the command for the workspace.
func (c *Cmd) program() (program.Command, error) {
	if c.workspace == nil || c.workspace.pyro == nil {
		return program.Command{}, errNoHandle
	}
	if c.ctx.Err() != nil {
		return program.Command{}, causeOf(c.ctx, nil)
	}
	if len(c.Args) == 0 {
		return program.Command{}, invalid("there is no program")
	}
	env := map[string]string{}
	for _, variable := range c.Env {
		name, value, ok := strings.Cut(variable, "=")
		if !ok {
			return program.Command{}, invalid("%q is not of the form NAME=VALUE", variable)
		}
		env[name] = value
	}
	if err := errors.Join(checkStrings(c.Args, env), checkSecretEnv(c.SecretEnv, env)); err != nil {
		return program.Command{}, err
	}
	if t := c.TTY; t != nil && !t.Size.valid() {
		return program.Command{}, invalid("a terminal of %d x %d characters: it must be 1 to 1000 each", t.Size.Cols, t.Size.Rows)
	}
	return program.Command{
		Argv: c.Args, Env: program.Environ(env), Cwd: inWorkspace(c.Dir), Secrets: secretEnv(c.SecretEnv), TTY: c.TTY.terminal(),
	}, nil
}

// errState returns the error for a call that the state of the command does not allow.
func (c *Cmd) errState(format string, args ...any) error {
	return fault.New(Invalid, "run", c.String(), format, args...)
}
