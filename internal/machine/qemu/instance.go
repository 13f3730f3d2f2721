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

	"github.com/pyro-mcp/pyro/internal/agent/window"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/process"
)

// instance is one running QEMU: a machine, one that becomes a template, or one that only proves an accelerator.
type instance struct {
	process *process.Process
	monitor *monitor
	link    net.Conn
	window  *os.File
	console *process.Tail
	phases  []machine.Phase
	running chan struct{} // closed when the guest runs, after a restore too
	done    chan struct{}

	origin *origin // what it went on from; nil: it booted

	layering turn
	devices  *devices            // nil: it has not been asked yet how they are
	nodes    map[string][]string // of each disk, QEMU's nodes, the lowest first
	added    int                 // layers

	mu      sync.Mutex
	reason  error // why it ended, where something knew before the process did
	closing bool
	merged  chan error // told when layers have been merged
	atEnd   []func()   // gives back what the machine used
}

var _ machine.Machine = (*instance)(nil)

// start runs a QEMU for an accelerator, whose arguments arrange makes, given the wiring to add inherited files to. Those files may be closed once start has
// returned.
func start(accel machine.Isolation, binary, id, dir string, arrange func(*wiring) []string) (*instance, error) {
	in := &instance{console: process.NewTail(16 << 10), running: make(chan struct{}), done: make(chan struct{}), nodes: map[string][]string{}, layering: make(turn, 1)}
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
	shareable, err := newWindow()
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
	in.process, in.link, in.window = p, conns["agent"], shareable
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

// diskFailed ends a machine whose disk can't be written any more: QEMU pauses it, and it would hang until somebody's patience is over.
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
	in.process.Strike()
}

// end notes why the machine ends, unless something came before.
func (in *instance) end(reason error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.reason == nil {
		in.reason = reason
	}
}

// watch reads the console to its end, reaps QEMU and tells why it ended.
func (in *instance) watch(console net.Conn) {
	read := make(chan struct{})
	go func() {
		defer close(read)
		io.Copy(in.console, console)
	}()
	<-in.process.Done()
	// What the guest said last is already in the socket; a process that inherited it would keep it open, but QEMU may not start any.
	console.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	<-read
	console.Close()
	in.monitor.close()
	in.link.Close()
	in.window.Close()
	in.end(in.died())
	in.mu.Lock()
	for _, f := range in.atEnd {
		f()
	}
	close(in.done)
	in.mu.Unlock()
}

// onEnd has f called once the machine has ended.
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

// died says in words why QEMU ended.
func (in *instance) died() error {
	console := in.console.String()
	e := &fault.Error{Op: "run machine", Kind: fault.Unavailable}
	switch at := strings.LastIndex(console, "Kernel panic"); {
	case at >= 0:
		line, _, _ := strings.Cut(console[at:], "\n")
		e.Err = errors.New("the guest's kernel panicked: " + strings.TrimSpace(fault.Printable(line)))
	case in.process.Signal() == syscall.SIGBUS:
		// Its memory is a file. What can't be stored of it, while a template is made, is told so.
		e.Kind, e.Err, e.Hint = fault.Exhausted, errors.New("no space left on the host for the machine's memory"), "pyro env prune"
	case in.process.Success():
		e.Err = errors.New("the guest shut itself down" + lastLine(console))
	default:
		e.Err = in.process.Ended()
		e.Hint = "pyro doctor"
	}
	return e
}

// lastLine gives the last thing that the guest said on its console, for an error.
func lastLine(console string) string {
	lines := strings.FieldsFunc(fault.Printable(console), func(r rune) bool { return r == '\n' })
	for i := len(lines) - 1; i >= 0; i-- {
		if line := strings.TrimSpace(lines[i]); line != "" {
			return ": " + line
		}
	}
	return ""
}

// await waits until ready is closed, the machine ends or ctx does.
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

// giveUp ends a machine with which something failed, and tells the cause of it: err, unless the machine had ended by itself.
func (in *instance) giveUp(err error) error {
	if errors.Is(err, errMonitorClosed) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) {
		// QEMU is on its way out and can tell why.
		select {
		case <-in.done:
		case <-time.After(time.Second):
		}
	}
	in.Close()
	if reason := in.Err(); reason != nil {
		return reason
	}
	return err
}

// Link is the virtio-serial port's stream.
func (in *instance) Link() net.Conn { return in.link }

// Window is the file behind a disk of the machine's.
func (in *instance) Window() *os.File { return in.window }

// newWindow makes the memory of a window. QEMU can't change its size.
func newWindow() (*os.File, error) {
	fd, err := unix.MemfdCreate("window", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "window")
	if err = f.Truncate(window.Size); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Phases are those of the start.
func (in *instance) Phases() []machine.Phase { return in.phases }

// Limits bind: they are the machine's hardware.
func (in *instance) Limits() error { return nil }

// PID is QEMU's.
func (in *instance) PID() int { return in.process.PID() }

// Done is closed when QEMU has been reaped.
func (in *instance) Done() <-chan struct{} { return in.done }

// Err says why the machine ended.
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
