package keeper

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
	"syscall"
	"time"
	"unsafe"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/session"
)

// process is a program of the host, on a terminal of its own.
type process struct {
	cmd       *exec.Cmd
	master    *os.File
	separated map[session.Stream]io.ReadCloser
	ended     chan struct{}
	status    unix.WaitStatus
}

// start starts the program of a session. All that it starts stays below this process, whatever it does, until it ends.
func start(spec session.Spec) (program, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	master, tty, err := pty.Open()
	if err != nil {
		return nil, fault.Newf(fault.Unavailable, "there is no terminal: %w", err)
	}
	defer tty.Close()
	p := &process{master: master, ended: make(chan struct{})}
	if err := setSize(master, spec.Cols, spec.Rows); err != nil {
		master.Close()
		return nil, err
	}
	argv, folder := []string{"bash", "-lc", spec.Command}, spec.Cwd
	if spec.Backend == session.Workspace {
		folder = "/"
		if argv, err = inWorkspace(spec); err != nil {
			master.Close()
			return nil, err
		}
	}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Dir = folder
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
		return nil, fault.Newf(fault.Precondition, "it can't be started: %w", err)
	}
	return p, nil
}

// run runs the program on a thread of its own, with which it would die.
func (p *process) run(began chan<- error) {
	runtime.LockOSThread()
	err := p.cmd.Start()
	began <- err
	if err != nil {
		return
	}
	// What the program left behind becomes a child of this process: it is reaped beside it.
	children := make(chan struct{})
	go reap(p.cmd.Process.Pid, children)
	state, err := p.cmd.Process.Wait()
	if err == nil {
		p.status = unix.WaitStatus(state.Sys().(syscall.WaitStatus))
	}
	close(children)
	close(p.ended)
}

// reap reaps children other than the program, which is waited for by whoever started it.
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
				break // the program is next, and what comes after it is reaped with the end of the session
			}
			unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}

// pidOf is the process that a siginfo_t of SIGCHLD is about: its field si_pid, behind three numbers and what aligns it, see sigaction(2).
func pidOf(info *unix.Siginfo) int {
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), 16)))
}

// environment is what the program finds: that of whoever spawned it, with what a terminal needs and what was asked for.
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

func (p *process) close() {
	p.master.Close()
	for _, r := range p.separated {
		r.Close()
	}
}

func (p *process) Write(b []byte) (int, error)               { return p.master.Write(b) }
func (p *process) pid() int                                  { return p.cmd.Process.Pid }
func (p *process) streams() map[session.Stream]io.ReadCloser { return p.separated }

func (p *process) wait() (unix.WaitStatus, bool) {
	<-p.ended
	return p.status, false
}

func (p *process) resize(cols, rows int) error { return setSize(p.master, cols, rows) }

// signal sends a signal to the process group in the foreground of the terminal, or else to the program's.
func (p *process) signal(sig unix.Signal) error {
	group := p.pid()
	if _, inFront := p.foreground(); inFront > 0 {
		group = inFront
	}
	if err := unix.Kill(-group, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		return os.NewSyscallError("kill", err)
	}
	return nil
}

func (p *process) foreground() (settings *unix.Termios, group int) {
	if raw, err := p.master.SyscallConn(); err == nil { // so that the file stays with Go's poller
		raw.Control(func(fd uintptr) {
			settings, _ = unix.IoctlGetTermios(int(fd), unix.TCGETS)
			group, _ = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP)
		})
	}
	return settings, group
}

// kill ends all that is below this process: it is asked to, and killed when it has not after grace.
func (p *process) kill(grace time.Duration) {
	if grace > 0 {
		session.AskToEnd(p.pid(), true, grace, func() []int { return session.Descendants(os.Getpid()) })
	}
	// What forks while it is killed is found in the next round.
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

// setSize sets the size of a terminal, of which those in its foreground are told.
func setSize(master *os.File, cols, rows int) error {
	return pty.Setsize(master, &pty.Winsize{Cols: uint16(cols), Rows: uint16(rows)})
}
