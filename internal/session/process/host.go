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

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/session"
)

// hostProgram is a program that runs on the host, on its own terminal.
type hostProgram struct {
	cmd       *exec.Cmd
	master    *os.File
	tty       string // path of the end of the terminal that programs use
	separated map[session.Stream]io.ReadCloser
	ended     chan struct{}
	status    unix.WaitStatus

	signals sync.Mutex // locked by signal
	writing sync.Mutex // locked by Write, and while signal discards input
}

// start starts the program of a session. It makes this process the subreaper of all its
// descendants.
func start(spec session.Spec) (child, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	master, tty, err := openTerminal()
	if err != nil {
		return nil, fault.Newf(fault.Unavailable, "open a terminal: %w", err)
	}
	defer tty.Close()
	p := &hostProgram{master: master, tty: tty.Name(), ended: make(chan struct{})}
	if err := setSize(master, spec.Cols, spec.Rows); err != nil {
		master.Close()
		return nil, err
	}
	p.cmd = exec.Command("bash", "-lc", spec.Command)
	p.cmd.Dir = spec.Cwd
	p.cmd.Env = environment(spec)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = tty, tty, tty
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	p.separated = map[session.Stream]io.ReadCloser{session.Output: master}
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
	p.master.Close()
	for _, r := range p.separated {
		r.Close()
	}
}

// Write types into the terminal. It waits while the terminal is full. If a signal discards the
// input meanwhile, Write succeeds.
func (p *hostProgram) Write(b []byte) (int, error) {
	p.writing.Lock()
	defer p.writing.Unlock()
	n, err := p.master.Write(b)
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

func (p *hostProgram) resize(cols, rows int) error { return setSize(p.master, cols, rows) }

// signal signals the foreground process group of the terminal. If there is none, it signals the
// program's process group.
func (p *hostProgram) signal(sig unix.Signal, discard func()) error {
	p.signals.Lock()
	defer p.signals.Unlock()
	settings, foreground := p.foreground()
	group := p.pid()
	if foreground > 0 {
		group = foreground
	}
	if keyDiscards(settings, sig) {
		discard()
		p.master.SetWriteDeadline(time.Unix(1, 0)) // a pending Write returns
		p.writing.Lock()
		defer p.writing.Unlock()
		p.master.SetWriteDeadline(time.Time{})
		p.discardUnread()
	}
	if err := unix.Kill(-group, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		return os.NewSyscallError("kill", err)
	}
	return nil
}

// keyDiscards reports whether a terminal has a key for a signal that discards unread input.
func keyDiscards(settings *unix.Termios, sig unix.Signal) bool {
	index, ok := map[unix.Signal]int{unix.SIGINT: unix.VINTR, unix.SIGQUIT: unix.VQUIT, unix.SIGTSTP: unix.VSUSP}[sig]
	return ok && settings != nil && settings.Lflag&unix.ISIG != 0 && settings.Lflag&unix.NOFLSH == 0 && settings.Cc[index] != 0
}

// discardUnread discards the input that has not reached the terminal, and then the input that the
// terminal holds.
func (p *hostProgram) discardUnread() {
	withDescriptor(p.master, func(fd int) error { return unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCOFLUSH) })
	onTerminal(p.tty, func(fd int) error { return unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) })
}

// onTerminal opens the end of a terminal that programs use. It opens it only briefly, because a
// terminal that is open somewhere does not hang up.
func onTerminal(path string, f func(fd int) error) error {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(fd)
}

func (p *hostProgram) foreground() (settings *unix.Termios, group int) {
	withDescriptor(p.master, func(fd int) error {
		settings, _ = unix.IoctlGetTermios(fd, unix.TCGETS)
		group, _ = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return nil
	})
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

// openTerminal opens a terminal. The controlling end supports deadlines.
func openTerminal() (controlling, tty *os.File, err error) {
	blocking, tty, err := pty.Open()
	if err != nil {
		return nil, nil, err
	}
	defer blocking.Close()
	fd, err := unix.FcntlInt(blocking.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		tty.Close()
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), blocking.Name()), tty, nil
}

// setSize sets the size of a terminal. The foreground process group gets SIGWINCH.
func setSize(controlling *os.File, cols, rows int) error {
	return withDescriptor(controlling, func(fd int) error {
		return os.NewSyscallError("ioctl", unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(cols), Row: uint16(rows)}))
	})
}

// withDescriptor calls f with the descriptor of a file. Unlike [os.File.Fd], it does not disable
// the deadlines of the file.
func withDescriptor(file *os.File, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}
