package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/bench/floor"
	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/program"
)

// quiet runs a program and discards its output.
func quiet(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stderr = io.Discard
	return cmd.Run()
}

func (b *bench) runTrue() error {
	return quiet("bin/pyro", "run", "--isolation", string(b.isolation), environmentName, "--", "true")
}

func (b *bench) floorTrue() error {
	return quiet(b.program("floorrun"), b.template.Dir, b.image, "true")
}

func (b *bench) apiTrue() error {
	_, err := b.sdk.RunInVM(b.ctx, pyro.RunInVMRequest{Environment: environmentName, Argv: []string{"true"}, Isolation: b.isolation})
	return err
}

// start measures a complete run. The time begins before there is a machine. It ends when the
// command has ended and the machine is removed.
func (b *bench) start() error {
	r, err := b.times(b.n, b.runTrue, b.floorTrue)
	if err != nil {
		return err
	}
	b.figures = append(b.figures, figure("pyro run debian:12 -- true, whole process", "ms", r[0]).times(r[0], r[1], 1.25))
	r, err = b.times(b.n, b.apiTrue, func() error { return floor.Run(b.ctx, b.template, b.image, []string{"true"}) })
	if err != nil {
		return err
	}
	b.figures = append(b.figures, figure("RunInVM(true), Go API", "ms", r[0]).times(r[0], r[1], 1.10))
	return nil
}

// boot measures a cold boot of the same machine with the same command, without a template.
func (b *bench) boot() error {
	kernel, err := b.store.Kernel(b.ctx, nil)
	if err != nil {
		return err
	}
	initramfs, err := b.store.Initramfs(b.ctx, kernel, b.guest)
	if err != nil {
		return err
	}
	cold := func() error {
		m, err := floor.Cold(b.template, b.image, kernel.Path, initramfs.Path)
		if err != nil {
			return err
		}
		defer m.Close()
		return runIn(b, m)
	}
	r, err := b.times(b.n, cold, b.apiTrue)
	if err != nil {
		return err
	}
	f := figure("cold boot to the same command", "ms", r[0])
	f.Floor = quantile(r[1], 0.5)
	b.figures = append(b.figures, f.judge(f.Median/f.Floor, "times a start", 5, false))
	return nil
}

func runIn(b *bench, m *floor.Machine) error {
	c, err := client.Dial(b.ctx, m.Link)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Renew(b.ctx, client.NewIdentity("floor")); err != nil {
		return err
	}
	_, err = c.Exec(b.ctx, program.Command{Argv: []string{"true"}}, program.Attach{})
	return err
}

// concurrentStarts measures eight concurrent starts of machines.
func (b *bench) concurrentStarts() error {
	const machines = 8
	all := func() error {
		var failed error
		var once sync.Once
		var wg sync.WaitGroup
		for range machines {
			wg.Go(func() {
				if err := b.runTrue(); err != nil {
					once.Do(func() { failed = err })
				}
			})
		}
		wg.Wait()
		return failed
	}
	r, err := b.times(b.n, all, b.floorTrue)
	if err != nil {
		return err
	}
	floors := make([]float64, len(r[1]))
	for i, one := range r[1] {
		floors[i] = machines * one / 2
	}
	b.figures = append(b.figures, figure("8 starts at once, 2 processors", "ms", r[0]).times(r[0], floors, 1.2))
	return nil
}

// first measures preparations that happen only once.
func (b *bench) first() error {
	dir := filepath.Join(b.dir, "cache")
	// The environment and its kernel are pulled into an empty cache. Then the first run builds the
	// template.
	env := append(os.Environ(), "PYRO_CACHE_DIR="+dir)
	run := func(args ...string) (float64, error) {
		cmd := exec.Command("bin/pyro", args...)
		cmd.Env, cmd.Stderr = env, io.Discard
		began := time.Now()
		err := cmd.Run()
		return time.Since(began).Seconds(), err
	}
	pull, err := run("env", "pull", environmentName)
	if err != nil {
		return err
	}
	one, err := run("run", "--isolation", string(b.isolation), environmentName, "--", "true")
	if err != nil {
		return err
	}
	b.figures = append(b.figures, figure("env pull debian:12, empty cache", "s", []float64{pull}),
		figure("first run: kernel, accelerator, template", "s", []float64{one}))
	return nil
}
