package qemu

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/machine"
)

// firstFD is the number of the first inherited file.
const firstFD = 3

// process is one running QEMU. It is confined as far as the host allows (see confine), has no name in the file system, and dies with the
// thread that started it, which lives until QEMU has been reaped: so it dies with pyro, however pyro ends.
type process struct {
	cmd    *exec.Cmd
	stderr *tail
	done   chan struct{} // closed once QEMU has been reaped
	state  *os.ProcessState
}

// launch starts QEMU for an accelerator with the given arguments and inherited files, numbered from 3 on, trying one confinement after the other until the host allows one.
// dir is where it may make a folder for a moment.
func launch(accel machine.Isolation, binary string, args []string, files []*os.File, id, dir string) (*process, error) {
	root, err := vanishedFolder(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	files = append(files[:len(files):len(files)], root)
	var refused []error
	for _, c := range confinements(accel, id, firstFD+len(files)-1) {
		p := &process{stderr: newTail(4 << 10), done: make(chan struct{})}
		p.cmd = exec.Command(binary, append(args[:len(args):len(args)], c.args...)...)
		p.cmd.ExtraFiles = files
		p.cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
		p.cmd.Dir = "/"
		p.cmd.Stderr = p.stderr
		p.cmd.SysProcAttr = c.attr
		err := p.start()
		if err == nil {
			return p, nil
		}
		refused = append(refused, err)
		if !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EACCES) {
			break
		}
	}
	return nil, errors.Join(refused...)
}

// start runs the command on a thread of its own: the parent-death signal comes when that thread ends, not when the process does.
func (p *process) start() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			runtime.UnlockOSThread()
			return
		}
		p.cmd.Wait()
		p.state = p.cmd.ProcessState
		runtime.UnlockOSThread()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return err
	}
	// No core dump: it would hold the guest's memory.
	unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	return nil
}

// kill ends QEMU at once and returns when it has been reaped. Idempotent.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// signal is what QEMU was killed by, 0 where it exited. It may be called once done is closed.
func (p *process) signal() syscall.Signal {
	if status, ok := p.state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal()
	}
	return 0
}

// ended says in words how QEMU ended. It may be called once done is closed.
func (p *process) ended() error {
	text := strings.TrimSpace(p.stderr.String())
	status, _ := p.state.Sys().(syscall.WaitStatus)
	how := fmt.Sprintf("QEMU exited with code %d", status.ExitStatus())
	if status.Signaled() {
		how = fmt.Sprintf("QEMU was killed by signal %d (%s)", status.Signal(), status.Signal())
	}
	if text != "" {
		how += ": " + text
	}
	return errors.New(how)
}

// tail keeps the last bytes written to it.
type tail struct {
	kept chan []byte // holds the one slice: a lock that carries its data
	size int
}

func newTail(size int) *tail {
	t := &tail{kept: make(chan []byte, 1), size: size}
	t.kept <- nil
	return t
}

func (t *tail) Write(p []byte) (int, error) {
	kept := append(<-t.kept, p...)
	if over := len(kept) - t.size; over > 0 {
		kept = append([]byte(nil), kept[over:]...)
	}
	t.kept <- kept
	return len(p), nil
}

func (t *tail) String() string {
	kept := <-t.kept
	text := string(kept)
	t.kept <- kept
	return text
}

var _ io.Writer = (*tail)(nil)
