package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strconv"

	"github.com/pyro-mcp/pyro/bench/floor"
	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/supervisor"
)

// machine starts a machine in the same way as pyro.
func (b *bench) machine() (*supervisor.Machine, error) { return b.machineOf(b.driver) }

func (b *bench) machineOf(d machine.Driver) (*supervisor.Machine, error) {
	return supervisor.Start(b.ctx, supervisor.Config{Dirs: b.dirs, Driver: d, Root: b.root, VCPUs: vcpus, MemMiB: memMiB})
}

// put copies a program into a machine.
func (b *bench) put(c *client.Client, name string) error {
	f, err := os.Open(b.program(name))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return c.WriteFile(b.ctx, client.FileSpec{Path: "/root/" + name, Mode: 0o755, Size: info.Size()}, f)
}

// exec compares the time to run a command in a running machine with the time of fork and exec
// inside the machine.
func (b *bench) exec() error {
	m, err := b.machine()
	if err != nil {
		return err
	}
	defer m.Close()
	return b.execIn(m, "exec /bin/true on a running machine", 4)
}

func (b *bench) execIn(m *supervisor.Machine, name string, limit float64) error {
	if err := b.put(m.Agent, "spawn"); err != nil {
		return err
	}
	n := max(b.n, 10) * 5
	// The time inside the machine is measured before and after, because the host's speed drifts.
	var inside, outside []float64
	own := func() error {
		var out bytes.Buffer
		if _, err := m.Agent.Exec(b.ctx, program.Command{Argv: []string{"/root/spawn", strconv.Itoa(n / 2), "/bin/true"}}, program.Attach{Stdout: &out}); err != nil {
			return err
		}
		lines := bufio.NewScanner(&out)
		for i := 0; lines.Scan(); i++ {
			ns, err := strconv.ParseFloat(lines.Text(), 64)
			if err != nil {
				return err
			}
			if i >= 5 {
				inside = append(inside, ns/1e6)
			}
		}
		return nil
	}
	if err := own(); err != nil {
		return err
	}
	r, err := b.times(n, func() error {
		_, err := m.Agent.Exec(b.ctx, program.Command{Argv: []string{"/bin/true"}}, program.Attach{})
		return err
	})
	if err != nil {
		return err
	}
	outside = r[0]
	if err := own(); err != nil {
		return err
	}
	b.figures = append(b.figures, figure(name, "ms", outside).over(inside, limit))
	return nil
}

// link compares an empty call to the agent with the echo of a byte over the same kind of link.
func (b *bench) link() error {
	m, err := b.machine()
	if err != nil {
		return err
	}
	defer m.Close()
	raw, err := b.raw('e')
	if err != nil {
		return err
	}
	defer raw.Close()
	one := make([]byte, 1)
	r, err := b.times(b.n*10, func() error {
		_, err := m.Agent.Status(b.ctx)
		return err
	}, func() error {
		if _, err := raw.Link.Write(one); err != nil {
			return err
		}
		_, err := io.ReadFull(raw.Link, one)
		return err
	})
	if err != nil {
		return err
	}
	f := figure("empty call to the agent; floor: a bare byte there and back", "ms", r[0])
	f.Floor = quantile(r[1], 0.5)
	b.figures = append(b.figures, f)
	return nil
}

// raw boots a machine with rawguest as its init. mode is the first byte that rawguest reads.
func (b *bench) raw(mode byte) (*floor.Machine, error) {
	kernel, err := b.store.Kernel(b.ctx, nil)
	if err != nil {
		return nil, err
	}
	initramfs, err := b.store.Initramfs(b.ctx, kernel, rawGuest(b.program("rawguest")))
	if err != nil {
		return nil, err
	}
	m, err := floor.Boot(b.template, kernel.Path, initramfs.Path)
	if err != nil {
		return nil, err
	}
	_, err = m.Link.Write([]byte{mode})
	return m, err
}
