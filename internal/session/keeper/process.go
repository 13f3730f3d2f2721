package keeper

import (
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
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
		return nil, fault.New(fault.Unavailable, "", "", "there is no terminal: %w", err)
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
		return nil, fault.New(fault.Precondition, "", "", "it can't be started: %w", err)
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

func (p *process) terminal() *os.File                        { return p.master }
func (p *process) pid() int                                  { return p.cmd.Process.Pid }
func (p *process) streams() map[session.Stream]io.ReadCloser { return p.separated }

func (p *process) wait() unix.WaitStatus {
	<-p.ended
	return p.status
}

// kill ends all that is below this process: it is asked to, and killed when it has not after grace.
func (p *process) kill(grace time.Duration) {
	if grace > 0 {
		for _, pid := range descendants(os.Getpid()) {
			unix.Kill(pid, unix.SIGTERM)
			unix.Kill(pid, unix.SIGCONT)
		}
		for deadline := time.Now().Add(grace); time.Now().Before(deadline) && len(descendants(os.Getpid())) > 0; {
			time.Sleep(5 * time.Millisecond)
		}
	}
	// What forks while it is killed is found in the next round.
	for deadline := time.Now().Add(killPatience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		left := descendants(os.Getpid())
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

// descendants are all processes below one that have not ended.
func descendants(of int) (all []int) {
	parents := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if parent, state, ok := parentOf(pid); ok && state != 'Z' && state != 'X' {
				parents[parent] = append(parents[parent], pid)
			}
		}
	}
	for next := []int{of}; len(next) > 0; next = next[1:] {
		all = append(all, parents[next[0]]...)
		next = append(next, parents[next[0]]...)
	}
	return all
}

// parentOf reads the parent and the state of a process, see proc_pid_stat(5).
func parentOf(pid int) (parent int, state byte, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, false
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 2 {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return parent, fields[0][0], err == nil
}
