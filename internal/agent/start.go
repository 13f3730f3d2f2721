package agent

import (
	"cmp"
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
	programv1 "github.com/pyro-mcp/pyro/internal/gen/program/v1"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/pty"
)

var errID = errors.New("exec_id must be 1 to 64 bytes")

// check validates a command.
func check(req *programv1.Command) error {
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
				return errors.New("arguments and environment must not contain NUL bytes")
			}
		}
	}
	for _, v := range req.Env {
		if strings.IndexByte(v, '=') < 1 {
			return errors.New("each variable must be NAME=VALUE")
		}
	}
	if size > maxArguments {
		return fmt.Errorf("arguments and environment have %d bytes, at most %d are allowed", size, maxArguments)
	}
	if req.Cwd != "" && req.Cwd[0] != '/' || len(req.Cwd) > maxPath || strings.IndexByte(req.Cwd, 0) >= 0 {
		return errors.New("cwd must be an absolute path")
	}
	if t := req.Tty; t != nil && !validSize(t.Cols, t.Rows) {
		return errors.New("a terminal has 1 to 1000 columns and rows")
	}
	return nil
}

func validSize(cols, rows uint32) bool { return cols >= 1 && cols <= 1000 && rows >= 1 && rows <= 1000 }

// failure is an error that prevented a process from running. code is the exit code that shells use
// for this error.
type failure struct {
	code int32
	err  error
}

func (f *failure) Error() string { return f.err.Error() }

func notExecutable(err error) *failure { return &failure{126, err} }

// failureOf returns the failure for an error that occurred during a start.
func failureOf(err error) *failure {
	var f *failure
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR):
		return &failure{127, err}
	default:
		return notExecutable(err)
	}
}

// maxArgument is the maximum length of an argument or a variable in bytes. Linux sets it.
const maxArgument = 128<<10 - 1

// longTogether is a length of all arguments and variables together, in bytes. If they are longer,
// they are the likely cause of an error about a long name. Linux accepts 2 MiB.
const longTogether = 1 << 20

// explained explains the error for arguments that are too long. Some kernels report it as a file
// name that is too long.
func explained(req *programv1.Command, err error) error {
	if !errors.Is(err, syscall.E2BIG) && !errors.Is(err, syscall.ENAMETOOLONG) {
		return err
	}
	size := 0
	for _, list := range [][]string{req.Argv, req.Env} {
		for _, s := range list {
			if size += len(s) + 1; len(s) > maxArgument {
				return notExecutable(fmt.Errorf("an argument or variable has %d bytes, and Linux allows %d: write the text to a file, and use the file", len(s), maxArgument))
			}
		}
	}
	if errors.Is(err, syscall.E2BIG) || size > longTogether {
		return notExecutable(errors.New("the arguments and variables are too long together: write them to a file, and use the file"))
	}
	return err
}

// failed returns a process that never ran, with the failure as its exit.
func failed(id string, f *failure) *process {
	p := &process{id: id, changed: make(chan struct{}), input: &input{}}
	p.stdout = newOutput(agentv1.Stream_STREAM_STDOUT, p.notify)
	p.stdout.log.End()
	text := f.Error()
	text = strings.ToValidUTF8(text[:min(len(text), maxMessageText)], "") // the cut can split a character, and paths can contain any bytes
	p.exit = &programv1.Exit{Code: f.code, NotRun: text}
	return p
}

// stdio contains both ends of the standard streams of a process.
type stdio struct {
	stdin, stdout, stderr *os.File    // the agent's ends
	child                 [3]*os.File // the process's ends, closed after the start
	null                  *os.File    // can be part of child, but all processes share it
	terminal              bool
}

func (e *stdio) closeChild() {
	for i, f := range e.child {
		if f != nil && f != e.null && (i == 0 || f != e.child[0]) {
			f.Close()
		}
	}
}

func (e *stdio) closeAgent() {
	for _, f := range []*os.File{e.stdin, e.stdout, e.stderr} {
		if f != nil {
			f.Close()
		}
	}
}

// openPipes opens the streams of a process without a terminal. It uses the agent's own /dev/null.
// The environment's /dev/null could be any file, for example a pipe that blocks.
func (e *stdio) openPipes(stdin bool) (err error) {
	if stdin {
		e.child[0], e.stdin, err = pipe(true)
	} else {
		e.null, err = null()
		e.child[0] = e.null
	}
	if err != nil {
		return err
	}
	if e.stdout, e.child[1], err = pipe(false); err != nil {
		return err
	}
	e.stderr, e.child[2], err = pipe(false)
	return err
}

// null returns the agent's own /dev/null, which is opened only once.
var null = sync.OnceValues(func() (*os.File, error) {
	fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: os.DevNull, Err: err}
	}
	return os.NewFile(uintptr(fd), os.DevNull), nil
})

// pipe creates a pipe and makes the agent's end non-blocking. If writing is true, that is the write
// end, otherwise the read end. Unlike os.Pipe, pipe leaves the other end blocking. That saves
// system calls, which are slow in an emulator or sandbox.
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

// openTerminal opens the streams of a process on a new terminal. The user uid becomes the owner of
// the terminal. Call it in ExecEnv.Do.
func (e *stdio) openTerminal(t *programv1.Size, uid uint32) error {
	controlling, tty, err := pty.Open()
	if err != nil {
		return err
	}
	e.stdout, e.child, e.terminal = controlling, [3]*os.File{tty, tty, tty}, true
	if err := tty.Chown(int(uid), -1); err != nil {
		return err
	}
	return pty.SetSize(controlling, int(t.Cols), int(t.Rows))
}

// start starts a process. If the process can't run, start returns a failed process. start returns
// an error only if it rejects the request.
func (s *Server) start(req *programv1.Command) (*process, error) {
	if err := check(req); err != nil {
		return nil, invalid(err.Error())
	}
	u, err := s.userOf(req.User)
	switch {
	case errors.Is(err, ErrNotReady):
		return nil, connect.NewError(connect.CodeFailedPrecondition, err)
	case errors.Is(err, errNoSuchUser), errors.Is(err, errNoSuchGroup):
		return nil, invalid(err.Error())
	}
	if err := s.execs.reserve(req.ExecId); err != nil {
		return nil, err
	}
	var p *process
	if err == nil {
		p, err = s.launch(req, u)
	}
	if err != nil {
		p = failed(req.ExecId, failureOf(explained(req, err)))
	}
	s.execs.set(req.ExecId, p)
	return p, nil
}

// userOf looks up the user of a command.
func (s *Server) userOf(spec string) (user, error) {
	root, err := s.env.Root()
	if err != nil {
		return user{}, err
	}
	u, err := findUser(root, spec)
	if err != nil {
		err = fmt.Errorf("user %.100q: %w", spec, err)
	}
	return u, err
}

func (s *Server) launch(req *programv1.Command, u user) (*process, error) {
	own := []string{"HOME=" + u.home}
	if req.Tty != nil {
		own = append(own, "TERM="+cmp.Or(req.Term, "xterm-256color"))
	}
	env := program.MergeEnv(defaultEnv, s.env.Env(), own, req.Env)
	var e stdio
	defer e.closeChild()
	if req.Tty == nil {
		if err := e.openPipes(req.Stdin); err != nil {
			e.closeAgent()
			return nil, notExecutable(err)
		}
	}
	group, err := s.env.Group()
	if err != nil {
		e.closeAgent()
		return nil, err
	}
	p := &process{id: req.ExecId, group: group, changed: make(chan struct{})}
	err = s.env.Do(func() (err error) {
		dir, err := workingDirectory(s.env.Path(req.Cwd), u.home)
		if err != nil {
			return notExecutable(err)
		}
		path, err := find(req.Argv[0], env, dir)
		if err != nil {
			return err
		}
		if req.Tty != nil {
			if err := e.openTerminal(req.Tty, u.credential.Uid); err != nil {
				return notExecutable(err)
			}
		}
		attr := &os.ProcAttr{Dir: dir, Env: env, Files: e.child[:], Sys: &syscall.SysProcAttr{
			Setsid: true, Setctty: e.terminal, Credential: &u.credential,
		}}
		group.Prepare(attr)
		p.began = time.Now()
		p.command, err = s.env.Start(path, req.Argv, attr)
		return err
	})
	if err != nil {
		e.closeAgent()
		group.Release()
		return nil, err
	}
	s.attach(p, time.Duration(req.TimeoutMs)*time.Millisecond, &e)
	return p, nil
}

// attach connects a started process to its streams and watches it.
func (s *Server) attach(p *process, timeout time.Duration, e *stdio) {
	p.stdout = newOutput(agentv1.Stream_STREAM_STDOUT, p.notify)
	pumps := []*pump{startPump(e.stdout, p.stdout)}
	if e.terminal {
		p.terminal = e.stdout
		p.input = newInput(e.stdout, true)
	} else {
		p.stderr = newOutput(agentv1.Stream_STREAM_STDERR, p.notify)
		pumps = append(pumps, startPump(e.stderr, p.stderr))
		p.input = newInput(e.stdin, false)
	}
	p.limit(timeout)
	go p.watch(pumps, func() { s.execs.forget(p.id) })
}

// workingDirectory returns the initial folder of a process. It is cwd, or home if cwd is empty, or
// the root if home is not a folder.
func workingDirectory(cwd, home string) (string, error) {
	var st unix.Stat_t
	if cwd == "" {
		if unix.Stat(home, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return home, nil
		}
		return "/", nil
	}
	if err := unix.Stat(cwd, &st); err != nil {
		return "", &os.PathError{Op: "chdir", Path: cwd, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return "", &os.PathError{Op: "chdir", Path: cwd, Err: syscall.ENOTDIR}
	}
	return cwd, nil
}
