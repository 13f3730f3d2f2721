//go:build machine

package gvisor

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/agent/link"
	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/machinetest"
)

// launchWith starts a machine that can be saved to files, or goes on from them.
func launchWith(t *testing.T, d *Driver, spec machine.Spec, state []*os.File, restore bool) *sandbox {
	t.Helper()
	h, err := FindHelper("")
	if err != nil {
		t.Fatal(err)
	}
	i, err := d.images(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer i.close()
	near, far, err := machine.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	layer, err := disk.Unnamed(spec.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var files inheritance
	defer files.close()
	files.add(far)
	files.open(i.agent.Path(imageFile))
	files.open(i.environment.Path(imageFile))
	files.add(layer)
	to := files.pipe(false)
	from := files.pipe(true)
	files.open(h.Path)
	files.all = append(files.all, nil, nil) // it has no storage
	for _, f := range state {
		files.open(f.Name())
	}
	if files.err != nil {
		t.Fatal(files.err)
	}
	if !restore { // they are written to
		copy(files.all[len(files.all)-len(state):], state)
	}
	s := &sandbox{control: newControl(near), link: link.NewPipes(from, to), done: make(chan struct{})}
	if s.process, err = s.run(spec.ID, files.all); err != nil {
		t.Fatal(err)
	}
	go s.watch()
	t.Cleanup(func() { s.Close() })
	if err := s.control.send(order{
		Protocol: protocol, ID: spec.ID, VCPUs: spec.VCPUs, MemBytes: int64(spec.MemMiB) << 20, LayerBytes: layerSize,
		Args: []string{agentProgram, "sandbox"}, Env: agentEnv, State: true, Restore: restore,
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.started(ctx); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestWhatRunsSurvivesSavingAndRestoring: processes and their terminals belong to the agent, which finds its link again by itself.
func TestWhatRunsSurvivesSavingAndRestoring(t *testing.T) {
	d, spec := driverIn(t, machinetest.SharedDirs(t)), specOf(t, machinetest.Debian(t))
	var state []*os.File
	for _, name := range []string{"state", "metadata", "pages"} {
		f, err := os.Create(filepath.Join(t.TempDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		state = append(state, f)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dial := func(s *sandbox) *client.Client {
		t.Helper()
		c, err := client.Dial(ctx, s.link)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}

	first := launchWith(t, d, spec, state, false)
	c := dial(first)
	if err := c.Renew(ctx, client.NewIdentity("first")); err != nil {
		t.Fatal(err)
	}
	m := &started{first, c}
	m.shell(t, `echo kept >/root/file; (while :; do date +%N >/tmp/b && mv /tmp/b /tmp/beat; sleep 0.05; done) >/dev/null 2>&1 & echo $! >/tmp/pid`)
	// A command on a terminal, whose follower is cut off.
	go c.Exec(ctx, client.Command{
		ID: "shell", Argv: []string{"sh", "-c", "tty >/tmp/tty; sleep 1000"}, TTY: &client.Terminal{Cols: 80, Rows: 24},
	}, nil, new(bytes.Buffer), new(bytes.Buffer))
	for began := time.Now(); m.shell(t, "cat /tmp/tty 2>/dev/null; :") == ""; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatal("the command does not start")
		}
	}
	before := m.shell(t, "cat /tmp/pid /tmp/tty")
	if err := first.control.send(map[string]string{"do": "save"}); err != nil {
		t.Fatal(err)
	}
	if err := first.control.await(ctx, "saved"); err != nil {
		t.Fatal(err)
	}
	m.shell(t, "echo the saved machine goes on")
	first.Close()

	spec.Dir = t.TempDir()
	second := launchWith(t, d, spec, state, true)
	c = dial(second)
	if _, err := c.Stat(ctx, "/root/file"); err == nil {
		t.Error("the restored machine answers before it has been renewed")
	}
	if err := c.Renew(ctx, client.NewIdentity("second")); err != nil {
		t.Fatal(err)
	}
	m = &started{second, c}
	if got := m.shell(t, "cat /root/file; hostname"); got != "kept\nsecond" {
		t.Errorf("its file and name: %q", got)
	}
	if after := m.shell(t, "kill -0 $(cat /tmp/pid) && cat /tmp/pid /tmp/tty"); after != before {
		t.Errorf("what ran was %q, and is %q", before, after)
	}
	if got := m.shell(t, "a=$(cat /tmp/beat); sleep 0.5; test $a != $(cat /tmp/beat) && echo beats"); got != "beats" {
		t.Errorf("the loop in the background: %q", got)
	}
	// The command on the terminal is known by its name, and the terminal is the same one.
	if err := c.Resize(ctx, "shell", 100, 30); err != nil {
		t.Error(err)
	}
	if got := m.shell(t, "stty size <$(cat /tmp/tty)"); got != "30 100" {
		t.Errorf("the size of its terminal: %q", got)
	}
	if err := c.Signal(ctx, "shell", syscall.SIGHUP); err != nil {
		t.Error(err)
	}
}
