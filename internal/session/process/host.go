package process

import (
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/pty"
	"github.com/pyro-mcp/pyro/internal/session"
)

// hostProgram is a program that runs on the host, on its own terminal.
type hostProgram struct {
	cmd       *exec.Cmd
	terminal  *os.File // the controlling end
	separated map[session.Stream]io.ReadCloser
	ended     chan struct{}
	status    unix.WaitStatus

	signals sync.Mutex // locked by signal
}

// start starts the program of a session. It makes this process the subreaper of all its
// descendants.
func start(spec session.Spec) (child, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	controlling, tty, err := pty.Open()
	if err != nil {
		return nil, fault.Newf(fault.Unavailable, "open a terminal: %w", err)
	}
	defer tty.Close()
	p := &hostProgram{terminal: controlling, ended: make(chan struct{})}
	if err := pty.SetSize(controlling, spec.Cols, spec.Rows); err != nil {
		controlling.Close()
		return nil, err
	}
	p.cmd = exec.Command("bash", "-lc", spec.Command)
	p.cmd.Dir = spec.Cwd
	p.cmd.Env = environment(spec)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = tty, tty, tty
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	p.separated = map[session.Stream]io.ReadCloser{session.Output: controlling}
	var far []*os.File
	if spec.Separate {
		p.separated = map[session.Stream]io.ReadCloser{}
		for stream, to := range map[session.Stream]*io.Writer{session.Stdout: &p.cmd.Stdout, session.Stderr: &p.cmd.Stderr} {
			r, w, err := os.Pipe()
			if err != nil {
				p.close()
				return nil, err
			}
			p.separated[stream], *to = r, w
			far = append(far, w)
		}
	}
	began := make(chan error)
	go p.run(began)
	err = <-began
	for _, w := range far {
		w.Close()
	}
	if err != nil {
		p.close()
		return nil, fault.Newf(fault.Precondition, "can't start the program: %w", err)
	}
	return p, nil
}

// run runs the program on a dedicated OS thread. If that thread exited, the kernel would kill the
// program.
func (p *hostProgram) run(began chan<- error) {
	runtime.LockOSThread()
	err := p.cmd.Start()
	began <- err
	if err != nil {
		return
	}
	// Reap orphans while the program runs.
	children := make(chan struct{})
	go reap(p.cmd.Process.Pid, children)
	state, err := p.cmd.Process.Wait()
	if err == nil {
		p.status = unix.WaitStatus(state.Sys().(syscall.WaitStatus))
	}
	close(children)
	close(p.ended)
}

// reap reaps all children except the program itself.
func reap(program int, until <-chan struct{}) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	defer signal.Stop(died)
	for {
		select {
		case <-until:
			return
		case <-died:
		}
		for {
			var info unix.Siginfo
			if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); err != nil {
				break
			}
			pid := pidOf(&info)
			if pid == 0 || pid == program {
				break // the program is reaped elsewhere, and later children at the end of the session
			}
			unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}

// pidOf returns the field si_pid of a siginfo_t for SIGCHLD. That field follows three integers and
// padding; see sigaction(2).
func pidOf(info *unix.Siginfo) int {
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), 16)))
}

// environment returns the environment of the program. It contains the client's environment,
// variables that describe the terminal, and the variables of the spec.
func environment(spec session.Spec) []string {
	set := map[string]string{"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
	maps.Copy(set, spec.Env)
	set[session.Variable] = spec.ID
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		_, replaced := set[name]
		return replaced || strings.HasPrefix(name, "GOMEMLIMIT") || strings.HasPrefix(name, "GOGC")
	})
	for _, name := range slices.Sorted(maps.Keys(set)) {
		env = append(env, name+"="+set[name])
	}
	return env
}

func (p *hostProgram) close() {
	p.terminal.Close()
	for _, r := range p.separated {
		r.Close()
	}
}

// Write types into the terminal. It waits while the terminal is full. If a signal discards the
// input meanwhile, Write succeeds.
func (p *hostProgram) Write(b []byte) (int, error) {
	n, err := p.terminal.Write(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return len(b), nil
	}
	return n, err
}

func (p *hostProgram) pid() int                                  { return p.cmd.Process.Pid }
func (p *hostProgram) streams() map[session.Stream]io.ReadCloser { return p.separated }

func (p *hostProgram) wait() (unix.WaitStatus, bool) {
	<-p.ended
	return p.status, false
}

func (p *hostProgram) resize(cols, rows int) error { return pty.SetSize(p.terminal, cols, rows) }

// signal signals the foreground process group of the terminal. If there is none, it signals the
// program's process group.
func (p *hostProgram) signal(sig unix.Signal, queued *input) error {
	p.signals.Lock()
	defer p.signals.Unlock()
	group, _ := pty.Foreground(p.terminal)
	if group == 0 {
		group = p.pid()
	}
	if pty.SignalKeys(p.terminal).DiscardsFor(sig) {
		p.terminal.SetWriteDeadline(time.Unix(1, 0)) // a pending Write returns
		resume := queued.discard()
		defer resume()
		p.terminal.SetWriteDeadline(time.Time{})
		pty.DiscardInput(p.terminal)
	}
	if err := unix.Kill(-group, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		return os.NewSyscallError("kill", err)
	}
	return nil
}

func (p *hostProgram) foreground() (settings *unix.Termios, group int) {
	settings, _ = pty.Settings(p.terminal)
	group, _ = pty.Foreground(p.terminal)
	return settings, group
}

// kill asks all descendants of this process to end. After grace, it kills those that still run.
func (p *hostProgram) kill(grace time.Duration) {
	if grace > 0 {
		session.AskToEnd(p.pid(), grace, func() []int { return session.Descendants(os.Getpid()) })
	}
	// Each round can find new children.
	for deadline := time.Now().Add(killPatience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		left := session.Descendants(os.Getpid())
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			unix.Kill(pid, unix.SIGKILL)
			unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}

const killPatience = 10 * time.Second
