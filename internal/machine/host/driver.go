// Package host starts machines that are none: the agent runs as a process of the host, and so does what it is asked to run. Nothing is isolated.
// It is what --allow-host-compat allows where no guest can be had.
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

// Config says what a driver works with.
type Config struct {
	Dirs  dirs.Dirs
	Guest *guest.Program
}

// Driver runs the agent as a process of the host.
type Driver struct{ cfg Config }

var _ machine.Driver = (*Driver)(nil)

// New makes a driver.
func New(cfg Config) *Driver { return &Driver{cfg} }

// Isolation is none.
func (d *Driver) Isolation() machine.Isolation { return machine.None }

// Features are none.
func (d *Driver) Features() machine.Features { return machine.Features{} }

// Prove always succeeds where the agent's program can be had.
func (d *Driver) Prove(context.Context, progress.Func) error {
	_, err := d.program()
	return err
}

// Ready tells that nothing has to be made: the agent's program is put into the cache in no time.
func (d *Driver) Ready(context.Context, machine.Spec) (machine.Readiness, error) {
	return machine.Readiness{Parts: map[string]string{machine.PartAgent: d.cfg.Guest.Digest()}}, nil
}

// Forget has nothing to remove.
func (d *Driver) Forget(context.Context, machine.Spec) error { return nil }

func (d *Driver) program() (string, error) {
	return d.cfg.Guest.Install(filepath.Join(d.cfg.Dirs.Cache, "agent"))
}

// endPatience is how long an agent may take to end what it started before it is killed itself.
const endPatience = 2 * time.Second

// process is the agent's process.
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

// Start starts the agent's process. Root, VCPUs and MemMiB bind nothing here, and of the storage there is only the volume.
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
	// No parent-death signal: the end of the link is what the agent ends at, and it has to kill what it started first.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := p.start(); err != nil {
		link.Close()
		return nil, fault.Wrap(err, "start machine", spec.ID)
	}
	p.phases = []machine.Phase{{Name: "agent", Duration: time.Since(began)}}
	return p, nil
}

// start runs the agent and has it waited for.
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

// Link is the socket to the agent.
func (p *process) Link() net.Conn { return p.link }

// Window is nil: the link is a socket, which is fast enough.
func (p *process) Window() *os.File { return nil }

// Phases are those of the start.
func (p *process) Phases() []machine.Phase { return p.phases }

// Limits don't bind.
func (p *process) Limits() error { return errors.New("a process of the host has none") }

// PID is the agent's.
func (p *process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the agent has been reaped.
func (p *process) Done() <-chan struct{} { return p.done }

// Err says why the agent ended.
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

// Close has the agent kill what it started and end.
func (p *process) Close() error {
	p.mu.Lock()
	select {
	case <-p.done:
	default:
		p.closing = true
	}
	p.mu.Unlock()
	// The end of the link is what the agent ends at, after it has killed all that it started.
	if c, ok := p.link.(*net.UnixConn); ok {
		c.CloseWrite()
	}
	select {
	case <-p.done:
	case <-time.After(endPatience):
		p.cmd.Process.Kill()
		<-p.done
	}
	return nil
}
