package agent

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

var errID = errors.New("exec_id must be 1 to 64 bytes")

// check refuses an exec that can't be right.
func check(req *agentv1.ExecRequest) error {
	if len(req.ExecId) < 1 || len(req.ExecId) > maxID {
		return errID
	}
	if len(req.Argv) == 0 {
		return errors.New("argv must not be empty")
	}
	size := 0
	for _, list := range [][]string{req.Argv, req.Env} {
		for _, s := range list {
			size += len(s)
			if strings.IndexByte(s, 0) >= 0 {
				return errors.New("arguments and environment must not hold a zero byte")
			}
		}
	}
	for _, v := range req.Env {
		if strings.IndexByte(v, '=') < 1 {
			return errors.New("the environment must be NAME=VALUE")
		}
	}
	if size > maxArguments {
		return fmt.Errorf("arguments and environment are %d bytes; %d are allowed", size, maxArguments)
	}
	if req.Cwd != "" && req.Cwd[0] != '/' || len(req.Cwd) > maxPath || strings.IndexByte(req.Cwd, 0) >= 0 {
		return errors.New("cwd must be an absolute path")
	}
	if t := req.Tty; t != nil && !sane(t.Cols, t.Rows) {
		return errors.New("a terminal has 1 to 1000 columns and rows")
	}
	return nil
}

func sane(cols, rows uint32) bool { return cols >= 1 && cols <= 1000 && rows >= 1 && rows <= 1000 }

// failure is why a process could not be started, as shells tell it.
type failure struct {
	kind agentv1.StartFailure
	code int32
	err  error
}

func (f *failure) Error() string { return f.err.Error() }

func notExecutable(kind agentv1.StartFailure, err error) *failure { return &failure{kind, 126, err} }

// failureOf maps what the kernel says.
func failureOf(err error) *failure {
	var f *failure
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR):
		return &failure{agentv1.StartFailure_START_FAILURE_NOT_FOUND, 127, err}
	case errors.Is(err, syscall.EPERM): // of becoming the user: what may not be executed is EACCES
		return notExecutable(agentv1.StartFailure_START_FAILURE_BAD_USER, err)
	case errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM):
		return notExecutable(agentv1.StartFailure_START_FAILURE_NO_RESOURCES, err)
	default:
		return notExecutable(agentv1.StartFailure_START_FAILURE_NOT_EXECUTABLE, err)
	}
}

// failed is a process that never ran.
func failed(id string, f *failure) *process {
	p := &process{id: id, changed: make(chan struct{}), input: &input{}}
	p.stdout = newOutput(agentv1.Stream_STREAM_STDOUT, false, p.wake)
	p.stdout.eof = true
	text := f.Error()
	text = strings.ToValidUTF8(text[:min(len(text), maxMessageText)], "") // it may have been cut within a character, and holds names that can be anything
	p.exit = &agentv1.Exit{Code: f.code, StartFailure: f.kind, Message: text}
	return p
}

// ends are the two ends of a process's streams: ours, and those that it is given, which are closed once it has them.
type ends struct {
	stdin, stdout, stderr *os.File
	theirs                [3]*os.File
	null                  *os.File // among theirs, and not theirs alone
	terminal              bool
}

func (e *ends) closeTheirs() {
	for i, f := range e.theirs {
		if f != nil && f != e.null && (i == 0 || f != e.theirs[0]) {
			f.Close()
		}
	}
}

func (e *ends) closeOurs() {
	for _, f := range []*os.File{e.stdin, e.stdout, e.stderr} {
		if f != nil {
			f.Close()
		}
	}
}

// openPipes makes the streams of a process without a terminal. Its /dev/null is the agent's own: what the place has of that name may be anything, a pipe
// whose opening never ends among it.
func (e *ends) openPipes(stdin bool) (err error) {
	if stdin {
		e.theirs[0], e.stdin, err = pipe(true)
	} else {
		e.null, err = null()
		e.theirs[0] = e.null
	}
	if err != nil {
		return err
	}
	if e.stdout, e.theirs[1], err = pipe(false); err != nil {
		return err
	}
	e.stderr, e.theirs[2], err = pipe(false)
	return err
}

// null is the agent's own /dev/null, opened once.
var null = sync.OnceValues(func() (*os.File, error) {
	fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: os.DevNull, Err: err}
	}
	return os.NewFile(uintptr(fd), os.DevNull), nil
})

// pipe makes a pipe of which the agent keeps one end, the one to write to where writing is true. It is os.Pipe, but for what that does to the other end too, so
// that Go's poller may wait for it: an emulated machine and a sandbox feel every system call.
func pipe(writing bool) (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	own := fds[0]
	if writing {
		own = fds[1]
	}
	if _, err := unix.FcntlInt(uintptr(own), unix.F_SETFL, unix.O_NONBLOCK); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fds[0]), "|0"), os.NewFile(uintptr(fds[1]), "|1"), nil
}

// openTerminal makes the streams of a process on a terminal, which becomes its user's. It must be called in the place.
func (e *ends) openTerminal(t *agentv1.Terminal, uid uint32) error {
	controlling, tty, err := openTerminal()
	if err != nil {
		return err
	}
	e.stdout, e.theirs, e.terminal = controlling, [3]*os.File{tty, tty, tty}, true
	if err := withDescriptor(tty, func(fd int) error { return unix.Fchown(fd, int(uid), -1) }); err != nil {
		return err
	}
	return setSize(controlling, t.Cols, t.Rows)
}

// start starts a process. What keeps it from running is a process that has failed; an error is a request that can't be right.
func (s *Server) start(req *agentv1.ExecRequest) (*process, error) {
	if err := check(req); err != nil {
		return nil, invalid(err.Error())
	}
	if _, err := s.place.Root(); errors.Is(err, ErrNotReady) {
		return nil, connect.NewError(connect.CodeFailedPrecondition, err)
	}
	if err := s.execs.reserve(req.ExecId); err != nil {
		return nil, err
	}
	p, err := s.launch(req)
	if err != nil {
		p = failed(req.ExecId, failureOf(err))
	}
	s.execs.set(req.ExecId, p)
	return p, nil
}

func (s *Server) launch(req *agentv1.ExecRequest) (*process, error) {
	root, err := s.place.Root()
	if err != nil {
		return nil, err
	}
	who, err := findUser(root, req.User)
	if err != nil {
		return nil, notExecutable(agentv1.StartFailure_START_FAILURE_BAD_USER, fmt.Errorf("user %q: %w", req.User, err))
	}
	own := []string{"HOME=" + who.home}
	if t := req.Tty; t != nil {
		term := t.Term
		if term == "" {
			term = "xterm-256color"
		}
		own = append(own, "TERM="+term)
	}
	env := merge(defaultEnv, s.place.Env(), own, req.Env)
	var e ends
	defer e.closeTheirs()
	if req.Tty == nil {
		if err := e.openPipes(req.Stdin); err != nil {
			e.closeOurs()
			return nil, notExecutable(agentv1.StartFailure_START_FAILURE_NO_RESOURCES, err)
		}
	}
	group, err := s.place.Group()
	if err != nil {
		e.closeOurs()
		return nil, err
	}
	p := &process{id: req.ExecId, group: group, changed: make(chan struct{})}
	err = s.place.Do(func() (err error) {
		dir, err := workingDirectory(s.place.Path(req.Cwd), who.home)
		if err != nil {
			return notExecutable(agentv1.StartFailure_START_FAILURE_BAD_CWD, err)
		}
		path, err := find(req.Argv[0], env, dir)
		if err != nil {
			return err
		}
		if req.Tty != nil {
			if err := e.openTerminal(req.Tty, who.credential.Uid); err != nil {
				return notExecutable(agentv1.StartFailure_START_FAILURE_NO_RESOURCES, err)
			}
		}
		attr := &os.ProcAttr{Dir: dir, Env: env, Files: e.theirs[:], Sys: &syscall.SysProcAttr{
			Setsid: true, Setctty: e.terminal, Credential: &who.credential,
		}}
		group.Prepare(attr)
		p.began = time.Now()
		p.command, err = s.place.Start(path, req.Argv, attr)
		return err
	})
	if err != nil {
		e.closeOurs()
		group.Release()
		return nil, err
	}
	s.attach(p, req, &e)
	return p, nil
}

// merge joins environments. A later variable takes the place of an earlier one: of two of a name, programs would see the first.
func merge(lists ...[]string) []string {
	var env []string
	at := map[string]int{}
	for _, list := range lists {
		for _, variable := range list {
			name, _, _ := strings.Cut(variable, "=")
			if i, known := at[name]; known {
				env[i] = variable
				continue
			}
			at[name] = len(env)
			env = append(env, variable)
		}
	}
	return env
}

// attach connects a started process with its streams and has it watched.
func (s *Server) attach(p *process, req *agentv1.ExecRequest, e *ends) {
	block := req.OnFull == agentv1.OnFull_ON_FULL_BLOCK
	p.stdout = newOutput(agentv1.Stream_STREAM_STDOUT, block, p.wake)
	pumps := []*pump{startPump(e.stdout, p.stdout)}
	if e.terminal {
		p.terminal = e.stdout
		p.input = &input{to: e.stdout, terminal: true}
	} else {
		p.stderr = newOutput(agentv1.Stream_STREAM_STDERR, block, p.wake)
		pumps = append(pumps, startPump(e.stderr, p.stderr))
		p.input = &input{to: e.stdin}
	}
	p.limit(time.Duration(req.TimeoutMs) * time.Millisecond)
	go p.watch(pumps, func() { s.execs.forget(p.id) })
}

// workingDirectory gives where a process starts: where it was asked to, else at home, else at the root.
func workingDirectory(asked, home string) (string, error) {
	var st unix.Stat_t
	if asked == "" {
		if unix.Stat(home, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return home, nil
		}
		return "/", nil
	}
	if err := unix.Stat(asked, &st); err != nil {
		return "", &os.PathError{Op: "chdir", Path: asked, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return "", &os.PathError{Op: "chdir", Path: asked, Err: syscall.ENOTDIR}
	}
	return asked, nil
}
