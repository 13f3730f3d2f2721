package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/program"
)

// Memory of the saved machine, and the part of the memory that the machine has written to.
const (
	savedMiB = 512
	touched  = 100 << 20
	touch    = `mkdir -p /run/touched && mount -t tmpfs none /run/touched; head -c 104857600 /dev/urandom >/run/touched/content && sleep 1`
)

// saved compares saving a machine with writing the machine's used memory to a file. It compares
// resuming with a start.
func (b *bench) saved() error {
	for _, d := range []machine.Driver{b.driver, b.sandbox} {
		if err := d.Prove(b.ctx, nil); err != nil {
			fmt.Fprintln(os.Stderr, d.Isolation(), "is not measured:", err)
			continue
		}
		if err := b.savedBy(d); err != nil {
			return err
		}
	}
	return nil
}

// owned is a machine that runs without a supervisor.
type owned struct {
	machine.Machine
	agent *client.Client
	dir   string
}

func (o *owned) Close() error {
	o.agent.Close()
	return errors.Join(o.Machine.Close(), os.RemoveAll(o.dir))
}

func (o *owned) run(b *bench, argv ...string) error {
	end, err := o.agent.Exec(b.ctx, program.Command{Argv: argv, Cwd: "/"}, program.Attach{})
	if err == nil && end.Code != 0 {
		err = fmt.Errorf("%v: exit code %d", argv, end.Code)
	}
	return err
}

// own starts or resumes a machine, then runs a command in it.
func (b *bench) own(d machine.Driver, saved string) (*owned, error) {
	identity := client.NewIdentity("saved")
	dir, err := os.MkdirTemp(b.dir, "machine-")
	if err != nil {
		return nil, err
	}
	m, err := d.Start(b.ctx, machine.Spec{ID: "bench-" + identity.MachineID[:16], Dir: dir, Root: b.root, VCPUs: vcpus, MemMiB: savedMiB, Saved: saved})
	if err != nil {
		return nil, err
	}
	o := &owned{Machine: m, dir: dir}
	if o.agent, err = client.Dial(b.ctx, m.Link()); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	err = o.agent.Renew(b.ctx, identity)
	if w, ok := m.(machine.Thawer); ok && err == nil && saved != "" {
		err = w.Thaw(b.ctx)
	}
	if err == nil {
		err = o.run(b, "/bin/true")
	}
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

// started returns a function that measures the time until a new machine has run a command.
func (b *bench) started(d machine.Driver, saved string) func() (float64, error) {
	return func() (float64, error) {
		began := time.Now()
		o, err := b.own(d, saved)
		if err != nil {
			return 0, err
		}
		return milliseconds(time.Since(began)), o.Close()
	}
}

// written returns a function that measures writing incompressible data to a file, including the
// flush.
func (b *bench) written(content []byte) func() (float64, error) {
	path := filepath.Join(b.dir, "written")
	return func() (float64, error) {
		took, err := clocked(func() error {
			f, err := os.Create(path)
			if err != nil {
				return err
			}
			_, err = f.Write(content)
			return errors.Join(err, f.Sync(), f.Close())
		})
		return took, errors.Join(err, os.Remove(path))
	}
}

func (b *bench) savedBy(d machine.Driver) error {
	o, err := b.own(d, "")
	if err != nil {
		return err
	}
	defer o.Close()
	if err := o.run(b, "sh", "-c", touch); err != nil {
		return err
	}
	dir := filepath.Join(b.dir, "saved-"+string(d.Isolation()))
	var still []float64 // time until the machine continues
	save := func() (float64, error) {
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
			return 0, err
		}
		took, err := clocked(func() error { return o.Machine.(machine.Saver).Save(b.ctx, dir) })
		if err != nil {
			return 0, err
		}
		began := time.Now()
		err = o.Machine.(machine.Saver).Resume(b.ctx)
		still = append(still, took+milliseconds(time.Since(began)))
		return took, err
	}
	content := make([]byte, touched)
	rand.Read(content)
	r, err := b.alternate(b.n, save, b.written(content))
	if err != nil {
		return err
	}
	of := fmt.Sprintf("%s: a machine of %d MiB that touched 100 MiB: ", d.Isolation(), savedMiB)
	b.figures = append(b.figures, figure(of+"save; floor: 100 MiB written and flushed", "ms", r[0]).times(r[0], r[1], 1.5),
		figure(of+"it stands still for a save; the same floor", "ms", still[1:]).over(r[1], 60))
	if r, err = b.alternate(b.n, b.started(d, dir), b.started(d, "")); err != nil {
		return err
	}
	b.figures = append(b.figures, figure(of+"resume to first exec; floor: a start", "ms", r[0]).times(r[0], r[1], 1.3))
	return nil
}
