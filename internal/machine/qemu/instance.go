package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/sharedbuffer"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/process"
)

// instance is a running QEMU process. It is a machine, a template that is being built, or a probe
// of an accelerator.
type instance struct {
	process *process.Process
	monitor *monitor
	link    net.Conn
	buffer  *os.File
	console *process.Tail
	phases  []machine.Phase
	running chan struct{} // closed when the guest runs, even after a restore
	done    chan struct{}

	origin *origin // what the machine was restored from; nil if it booted

	layering layerLock
	devices  *devices            // nil before the first Save
	nodes    map[string][]string // names of QEMU's nodes for each disk, the lowest first
	added    int                 // number of added layers

	mu      sync.Mutex
	reason  error // why the machine ended, if that is known before the process ends
	closing bool
	merged  chan error // receives the result of a merge
	atEnd   []func()   // called when the machine has ended, to free its resources
}

var _ machine.Machine = (*instance)(nil)

// start runs QEMU with an accelerator. The function arrange returns arguments and adds inherited
// files to the wiring. The caller can close these files after start.
func start(accel machine.Isolation, binary, id, dir string, arrange func(*wiring) []string) (*instance, error) {
	in := &instance{console: process.NewTail(16 << 10), running: make(chan struct{}), done: make(chan struct{}), nodes: map[string][]string{}, layering: make(layerLock, 1)}
	var w wiring
	var args []string
	conns := map[string]net.Conn{}
	defer func() {
		if in.process == nil {
			for _, c := range conns {
				c.Close()
			}
		}
	}()
	for _, name := range []string{"qmp", "agent", "console"} {
		conn, far, err := machine.NewStream()
		if err != nil {
			return nil, err
		}
		defer far.Close()
		conns[name] = conn
		args = append(args, stream(name, w.add(far))...)
	}
	args = append(args, "-mon", "chardev=qmp,mode=control")
	shareable, err := newSharedBuffer()
	if err != nil {
		return nil, err
	}
	args = append(args, shared(&w, shareable)...)
	args = append(args, filter...)
	args = append(args, arrange(&w)...)

	p, err := launch(accel, binary, args, w.files, id, dir)
	if err != nil {
		shareable.Close()
		return nil, err
	}
	in.process, in.link, in.buffer = p, conns["agent"], shareable
	var once sync.Once
	in.monitor = newMonitor(conns["qmp"], func(name string, data json.RawMessage) {
		switch name {
		case "RESUME":
			once.Do(func() { close(in.running) })
		case "BLOCK_JOB_COMPLETED", "BLOCK_JOB_CANCELLED":
			in.jobEnded(name, data)
		case "BLOCK_IO_ERROR":
			in.diskFailed(data)
		}
	})
	go in.watch(conns["console"])
	return in, nil
}

// diskFailed ends a machine if the host can't write to the machine's disk. In this case QEMU has
// paused the machine, which would otherwise hang.
func (in *instance) diskFailed(data json.RawMessage) {
	var event struct {
		NoSpace bool   `json:"nospace"`
		Action  string `json:"action"`
	}
	if json.Unmarshal(data, &event) != nil || event.Action != "stop" {
		return
	}
	reason := fault.New(fault.Internal, "write to the machine's disk", "", "the host could not store it")
	if event.NoSpace {
		reason = fault.New(fault.Exhausted, "write to the machine's disk", "", "no space left on the host").WithHint("pyro env prune")
	}
	in.end(reason)
	in.process.KillAsync()
}

// end records why the machine ended, unless a reason is already recorded.
func (in *instance) end(reason error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.reason == nil {
		in.reason = reason
	}
}

// watch reads the console to its end, reaps QEMU, and records why QEMU ended.
func (in *instance) watch(console net.Conn) {
	read := make(chan struct{})
	go func() {
		defer close(read)
		io.Copy(in.console, console)
	}()
	<-in.process.Done()
	// The guest's last output is already in the socket. A child process could keep the socket open,
	// but the system call filter stops QEMU from starting one.
	console.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	<-read
	console.Close()
	in.monitor.close()
	in.link.Close()
	in.buffer.Close()
	in.end(in.died())
	in.mu.Lock()
	for _, f := range in.atEnd {
		f()
	}
	close(in.done)
	in.mu.Unlock()
}

// onEnd adds a function to call when the machine has ended.
func (in *instance) onEnd(f func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	select {
	case <-in.done:
		f()
	default:
		in.atEnd = append(in.atEnd, f)
	}
}

// died returns the error that describes the end of QEMU.
func (in *instance) died() error {
	console := in.console.String()
	e := &fault.Error{Op: "run machine", Kind: fault.Unavailable}
	switch at := strings.LastIndex(console, "Kernel panic"); {
	case at >= 0:
		line, _, _ := strings.Cut(console[at:], "\n")
		e.Err = errors.New("the guest's kernel panicked: " + strings.TrimSpace(fault.Printable(line)))
	case in.process.Signal() == syscall.SIGBUS:
		// The machine's memory is a file. If the disk is full while a template is made, QEMU gets
		// SIGBUS.
		e.Kind, e.Err, e.Hint = fault.Exhausted, errors.New("no space left on the host for the machine's memory"), "pyro env prune"
	case in.process.Success() && strings.Contains(console, timerWrong):
		e.Err = errTimerWrong
	case in.process.Success():
		e.Err = errors.New("the guest shut itself down" + lastLine(console))
	default:
		e.Err = in.process.Ended()
		e.Hint = "pyro doctor"
	}
	return e
}

// lastLine returns the last line of the guest's console, for use in an error.
func lastLine(console string) string {
	lines := strings.FieldsFunc(fault.Printable(console), func(r rune) bool { return r == '\n' })
	for i := len(lines) - 1; i >= 0; i-- {
		if line := strings.TrimSpace(lines[i]); line != "" {
			return ": " + line
		}
	}
	return ""
}

// await waits until ready is closed. It fails if the machine ends or ctx is done.
func (in *instance) await(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	case <-in.done:
		return in.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// closeAfter ends a machine after an error. If the machine has ended by itself, closeAfter returns
// that reason, otherwise err.
func (in *instance) closeAfter(err error) error {
	if errors.Is(err, errMonitorClosed) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) {
		// QEMU is ending, and its reason is more precise than err.
		select {
		case <-in.done:
		case <-time.After(5 * time.Second):
		}
	}
	in.Close()
	if reason := in.Err(); reason != nil {
		return reason
	}
	return err
}

// Link returns the connection to the agent's virtio-serial port.
func (in *instance) Link() net.Conn { return in.link }

// SharedBuffer returns a file that the machine sees as one of its disks.
func (in *instance) SharedBuffer() *os.File { return in.buffer }

// newSharedBuffer creates the file in memory for a shared buffer. Seals prevent QEMU from changing
// the size.
func newSharedBuffer() (*os.File, error) {
	fd, err := unix.MemfdCreate("window", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "window")
	if err = f.Truncate(sharedbuffer.Size); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Phases returns the steps of the start.
func (in *instance) Phases() []machine.Phase { return in.phases }

// Limits returns nil, because the machine's virtual hardware enforces the limits.
func (in *instance) Limits() error { return nil }

// PID returns the PID of QEMU.
func (in *instance) PID() int { return in.process.PID() }

// Done is closed when QEMU has been reaped and the machine's resources are free.
func (in *instance) Done() <-chan struct{} { return in.done }

// Err returns the reason why the machine ended.
func (in *instance) Err() error {
	select {
	case <-in.done:
	default:
		return nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closing {
		return nil
	}
	return in.reason
}

// Close kills QEMU.
func (in *instance) Close() error {
	in.mu.Lock()
	if in.reason == nil {
		in.closing = true
	}
	in.mu.Unlock()
	in.process.Kill()
	<-in.done
	return nil
}
