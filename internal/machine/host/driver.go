// Package host is the driver of host_compat. It runs the agent and the callers' commands as
// processes of the host. Nothing isolates them. Callers get this driver only with
// --allow-host-compat, and only if the host can't start any other kind of machine.
package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/guest"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// Config has the dependencies of a driver.
type Config struct {
	Dirs  dirs.Dirs
	Guest *guest.Program
}

// Driver runs the agent as a process of the host.
type Driver struct{ cfg Config }

var _ machine.Driver = (*Driver)(nil)

// New creates a driver. It starts nothing.
func New(cfg Config) *Driver { return &Driver{cfg} }

// Isolation returns machine.None.
func (d *Driver) Isolation() machine.Isolation { return machine.None }

// Features returns the zero value, because the driver has no features.
func (d *Driver) Features() machine.Features { return machine.Features{} }

// Prove only unpacks the agent's program. It starts nothing.
func (d *Driver) Prove(context.Context, progress.Func) error {
	_, err := d.program()
	return err
}

// Ready never reports missing files, because unpacking the agent's program takes almost no time.
func (d *Driver) Ready(context.Context, machine.Spec) (machine.Readiness, error) {
	return machine.Readiness{Parts: map[string]string{machine.PartAgent: d.cfg.Guest.Digest()}}, nil
}

// Invalidate does nothing.
func (d *Driver) Invalidate(context.Context, machine.Spec) error { return nil }

func (d *Driver) program() (string, error) {
	return d.cfg.Guest.Install(filepath.Join(d.cfg.Dirs.Cache, "agent"))
}

// endTimeout is how long Close waits for the agent to kill its processes. After that the driver
// kills the agent, and the remaining processes outlive the machine. So the limit is longer than the
// agent's own limit, see proctree.KillAll.
const endTimeout = 10 * time.Second

// process is a machine that consists of the agent's process.
type process struct {
	cmd    *exec.Cmd
	link   net.Conn
	stderr bytes.Buffer
	phases []machine.Phase
	done   chan struct{}

	mu      sync.Mutex
	closing bool
}

var _ machine.Machine = (*process)(nil)

// Start starts the agent. It ignores Root, VCPUs and MemMiB, and uses only the volume of
// Spec.Storage.
func (d *Driver) Start(ctx context.Context, spec machine.Spec) (machine.Machine, error) {
	if err := ctx.Err(); err != nil {
		return nil, fault.Wrap(err, "start machine", spec.ID)
	}
	began := time.Now()
	program, err := d.program()
	if err != nil {
		return nil, err
	}
	link, far, err := machine.NewStream()
	if err != nil {
		return nil, fault.Wrap(err, "start machine", spec.ID)
	}
	defer far.Close()
	volume := ""
	if spec.Storage != nil {
		volume = spec.Storage.Tree.Folder
	}
	p := &process{cmd: exec.Command(program, "host", "3", volume), link: link, done: make(chan struct{})}
	p.cmd.ExtraFiles = []*os.File{far}
	p.cmd.Stderr = &p.stderr
	// The process gets no parent-death signal, because the agent must kill its own processes first.
	// The agent does that when the link is closed.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := p.start(); err != nil {
		link.Close()
		return nil, fault.Wrap(err, "start machine", spec.ID)
	}
	p.phases = []machine.Phase{{Name: "agent", Duration: time.Since(began)}}
	return p, nil
}

// start starts the agent's process and waits for its end in the background.
func (p *process) start() error {
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		p.cmd.Wait()
		p.link.Close()
		close(p.done)
	}()
	return nil
}

// Link returns the socket to the agent.
func (p *process) Link() net.Conn { return p.link }

// SharedBuffer returns nil, because a socket is fast enough.
func (p *process) SharedBuffer() *os.File { return nil }

// Phases returns the only step of the start.
func (p *process) Phases() []machine.Phase { return p.phases }

// Limits returns an error, because the machine has no limits.
func (p *process) Limits() error { return errors.New("a process of the host has no limits") }

// PID returns the PID of the agent's reaper.
func (p *process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has been reaped.
func (p *process) Done() <-chan struct{} { return p.done }

// Err returns the reason why the agent ended.
func (p *process) Err() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return nil
	}
	err := errors.New("the agent's process ended: " + p.cmd.ProcessState.String())
	if said := strings.TrimSpace(p.stderr.String()); said != "" {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return &fault.Error{Op: "run machine", Kind: fault.Unavailable, Err: err}
}

// Close makes the agent kill its processes and exit. It kills the agent after endTimeout.
func (p *process) Close() error {
	p.mu.Lock()
	select {
	case <-p.done:
	default:
		p.closing = true
	}
	p.mu.Unlock()
	// When the link is closed, the agent kills all of its processes and exits.
	if c, ok := p.link.(*net.UnixConn); ok {
		c.CloseWrite()
	}
	select {
	case <-p.done:
	case <-time.After(endTimeout):
		p.cmd.Process.Kill()
		<-p.done
	}
	return nil
}
