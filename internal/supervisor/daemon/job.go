package daemon

import (
	"context"
	"errors"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
)

// job is a program in the machine. A job begins with the start of the program or with a checkpoint,
// and ends with the program.
//
// There are three kinds of jobs. A command has a caller and an entry in the history. A shell keeps
// its output in memory for readers; a detached command is a shell with an entry in the history. A
// service keeps its output in files and its state in the database.
type job struct {
	daemon *daemon
	id     string // the ID of the program in requests to the agent. Only a restart of a service changes it.
	stdout *redactingWriter
	stderr *redactingWriter // nil if the program has a terminal.

	life    context.Context // the program ends when this context is cancelled
	cancel  context.CancelCauseFunc
	started chan struct{} // closed when the program has started; never closed if the job was restored from a checkpoint.
	done    chan struct{} // closed when the end has been recorded
	onStart func(pid int) // can be nil

	starting sync.Once // closes started

	mu    sync.Mutex // guards the fields below, the ID, and fields of each kind
	pid   int        // PID in the machine
	ended time.Time
	exit  program.Exit
	err   error // why the end was not seen
}

// init prepares a job. Its program ends when the context is cancelled.
func (j *job) init(d *daemon, life context.Context, id string) {
	j.daemon, j.id = d, id
	j.started, j.done = make(chan struct{}), make(chan struct{})
	j.life, j.cancel = context.WithCancelCause(life)
}

// run runs the program until it ends. Then it calls the function finish, which records the end, and
// closes the channel done.
func (j *job) run(c program.Command, from *program.Position, stdin io.Reader, finish func()) {
	j.complete(func() (program.Exit, error) { return j.attach(c, from, stdin) }, finish)
}

// complete is like run, for a program that the function attach runs.
func (j *job) complete(attach func() (program.Exit, error), finish func()) {
	defer close(j.done)
	defer j.cancel(nil)
	exit, err := attach()
	j.mu.Lock()
	j.ended, j.exit, j.err = time.Now(), exit, err
	j.mu.Unlock()
	finish()
}

func (j *job) attach(c program.Command, from *program.Position, stdin io.Reader) (exit program.Exit, err error) {
	c.ID = j.programID()
	to := program.Attach{Stdin: stdin, Stdout: j.stdout, Started: j.start}
	if j.stderr != nil {
		to.Stderr = j.stderr
	}
	if agent := j.daemon.machine.Agent; from == nil {
		exit, err = agent.Exec(j.life, c, to)
	} else {
		to.Started = nil
		exit, err = agent.Resume(j.life, c, *from, to)
	}
	if j.daemon.isSuspended(err) {
		return exit, errSuspended
	}
	err = errors.Join(err, j.stdout.Close())
	if j.stderr != nil {
		err = errors.Join(err, j.stderr.Close())
	}
	if err != nil {
		if exit, err = j.daemon.broken(j.life, err); j.daemon.isSuspended(err) {
			err = errSuspended // the workspace was paused while the program ran
		}
	}
	return exit, err
}

func (j *job) start(p program.Process) {
	j.mu.Lock()
	j.pid = p.PID()
	j.mu.Unlock()
	if j.onStart != nil {
		j.onStart(p.PID())
	}
	j.starting.Do(func() { close(j.started) })
}

// hasStarted reports whether the program has started. It can have ended since. It returns false for
// a job that was restored from a checkpoint.
func (j *job) hasStarted() bool {
	select {
	case <-j.started:
		return true
	default:
		return false
	}
}

func (j *job) programID() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.id
}

// broken returns the result of a program if its end was not observed because of the error err. If
// the machine has ended, broken returns the reason for that instead of err. If the machine ran out
// of memory, broken returns an exit and no error.
func (d *daemon) broken(ctx context.Context, err error) (program.Exit, error) {
	if ctx.Err() != nil {
		return program.Exit{}, context.Cause(ctx)
	}
	if fault.KindOf(err) == fault.Invalid { // the agent refused the program
		return program.Exit{}, err
	}
	select {
	case <-d.machine.Done():
	case <-time.After(endPatience):
		return program.Exit{}, err
	}
	ended := d.machine.Err()
	if errors.Is(ended, machine.ErrOutOfMemory) {
		exit := program.Killed(syscall.SIGKILL)
		exit.OutOfMemory = true
		return exit, nil
	}
	if ended == nil {
		return program.Exit{}, errStoppedMeanwhile
	}
	return program.Exit{}, fault.Newf(fault.Unavailable, "its machine ended while the command ran: %w", ended).
		WithHint("%s", fault.Act("workspace_start", "pyro workspace start %s", d.config.Workspace.ID))
}

var errStoppedMeanwhile = fault.Newf(fault.Unavailable, "the workspace was stopped while the command ran")

// endPatience is how long the supervisor waits, after an error, for the end of the machine.
const endPatience = 2 * time.Second

// isSuspended reports whether err means that a job continues under another supervisor.
func (d *daemon) isSuspended(err error) bool {
	return err != nil && (errors.Is(err, errSuspended) || d.suspended.Load())
}

func (j *job) hasEnded() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// signal sends a signal to the program's process group. If the program has a terminal, the signal
// goes to the foreground group of the terminal.
func (j *job) signal(ctx context.Context, sig syscall.Signal) error {
	return j.daemon.machine.Agent.Signal(ctx, j.programID(), sig)
}

// resize sets the size of the program's terminal.
func (j *job) resize(ctx context.Context, cols, rows int) error {
	return j.daemon.machine.Agent.Resize(ctx, j.programID(), cols, rows)
}

// askToEnd sends a signal, and waits until the program has ended or ctx is cancelled.
func (j *job) askToEnd(ctx context.Context, sig syscall.Signal) {
	if j.signal(ctx, sig) == nil {
		select {
		case <-j.done:
		case <-ctx.Done():
		}
	}
}

// kill kills the program and its descendants, and returns when the program has ended. It does
// nothing if the program has already ended.
func (j *job) kill(ctx context.Context) error {
	if j.hasEnded() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, killPatience)
	defer cancel()
	if err := j.daemon.machine.Agent.Kill(ctx, j.programID()); err != nil && !j.hasEnded() {
		return err
	}
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// exitRedacted returns how the program ended, with secrets redacted. The caller holds j.mu, or done
// is closed.
func (j *job) exitRedacted() program.Exit { return j.daemon.redactExit(j.exit) }

func (d *daemon) redactExit(exit program.Exit) program.Exit {
	exit.NotRun = d.secrets.Text(exit.NotRun)
	return exit
}

// savedStreams are the positions of a job's outputs, for a checkpoint.
type savedStreams struct {
	Stdout position  `json:"stdout"`
	Stderr *position `json:"stderr,omitempty"` // nil: the program has a terminal
}

// hold blocks the job's outputs, adds them to held, and returns their positions.
func (j *job) hold(held *[]*redactingWriter) savedStreams {
	s := savedStreams{Stdout: j.stdout.hold()}
	*held = append(*held, j.stdout)
	if j.stderr != nil {
		s.Stderr = new(j.stderr.hold())
		*held = append(*held, j.stderr)
	}
	return s
}

// resumeAt returns the position at which the agent continues the program.
func (s savedStreams) resumeAt(stdin uint64) *program.Position {
	p := &program.Position{Stdout: s.Stdout.Bytes, Stdin: stdin}
	if s.Stderr != nil {
		p.Stderr = s.Stderr.Bytes
	}
	return p
}

func (j *job) self() *job { return j }

// jobs is the list of jobs of one kind, oldest first.
type jobs[T interface {
	comparable
	self() *job
}] struct {
	mu  sync.Mutex
	all []T
}

// add adds a job to the list. The function admit returns the list without the jobs that the new job
// replaces, or an error.
func (l *jobs[T]) add(one T, admit func(all []T) ([]T, error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept, err := admit(l.all)
	if err != nil {
		return err
	}
	l.all = append(kept[:len(kept):len(kept)], one)
	return nil
}

func (l *jobs[T]) remove(one T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.all {
		if l.all[i] == one {
			l.all = append(l.all[:i:i], l.all[i+1:]...)
			return
		}
	}
}

func (l *jobs[T]) list() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]T(nil), l.all...)
}

// find returns the first job for which the function matches returns true.
func (l *jobs[T]) find(matches func(T) bool) (found T, ok bool) {
	for _, one := range l.list() {
		if matches(one) {
			return one, true
		}
	}
	return found, false
}

// errMachine is the cause of the cancellation of jobs whose machine ends.
var errMachine = errors.New(store.MachineEnded)

// cancel cancels all jobs of the list, because their machine ends or continues under another
// supervisor.
func (l *jobs[T]) cancel() {
	for _, one := range l.list() {
		cause := errMachine
		if one.self().daemon.suspended.Load() {
			cause = errSuspended
		}
		one.self().cancel(cause)
	}
}

// await waits until all jobs of the list have ended.
func (l *jobs[T]) await() {
	for _, one := range l.list() {
		<-one.self().done
	}
}
