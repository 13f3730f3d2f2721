package machinetest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/program"
)

// save saves a machine and returns the folder. Afterwards the machine is paused.
func (g *guest) save(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := g.Machine.(machine.Saver).Save(ctx, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// again returns the spec for a machine that resumes from a folder.
func (s suite) again(t *testing.T, g *guest, dir string) machine.Spec {
	spec := s.spec(t, shape{g.spec.VCPUs, g.spec.MemMiB})
	spec.Saved = dir
	return spec
}

// renew renews a machine and thaws its processes.
func (g *guest) renew(t *testing.T) {
	t.Helper()
	g.renewAsleep(t)
	g.wake(t)
}

// renewAsleep renews a machine but does not thaw its processes.
func (g *guest) renewAsleep(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	g.identity = client.NewIdentity(g.spec.ID)
	g.identity.Held = true
	if err := g.agent.Renew(ctx, g.identity); err != nil {
		t.Fatal(err)
	}
}

// wake thaws the machine's processes.
func (g *guest) wake(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := g.agent.Thaw(ctx)
	if w, ok := g.Machine.(machine.Thawer); ok && err == nil {
		err = w.Thaw(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// number reads a number from a file.
func (g *guest) number(t *testing.T, path string) int {
	t.Helper()
	n, err := strconv.Atoi(g.shell(t, "cat "+path))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// counting is a shell command that counts forever in the background. It replaces /run/count with a
// new file for each number.
const counting = `echo 0 >/run/count; (i=0; while :; do i=$((i+1)); echo $i >/run/part; mv /run/part /run/count; sleep 0.05; done) >/dev/null 2>&1 &`

// savable skips a test if the driver's machines don't implement Saver.
func (s suite) savable(t *testing.T) {
	if !s.saves {
		t.Skip("its machines are no machine.Savers")
	}
}

// continues saves a machine while commands run, and resumes it as another machine. The callers of
// the commands wait until then.
func (s suite) continues(t *testing.T) {
	s.savable(t)
	g := s.start(t, other)
	link := newMovableConn(g.Link())
	g.agent.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	var err error
	if g.agent, err = client.Dial(ctx, link); err != nil {
		t.Fatal(err)
	}
	defer g.agent.Close()
	g.renew(t)
	g.shell(t, counting)
	g.shell(t, "mkfifo /run/go; echo kept >/etc/kept; head -c 3000000 /dev/urandom >/root/random; cd /root; sha256sum random >sum; sync; echo unflushed >/etc/unflushed")

	// The test starts a terminal and a process whose output it does not read before the resume.
	terminal, unread := &output{}, &output{gate: make(chan struct{})}
	keys, typed := io.Pipe()
	var running sync.WaitGroup
	run := func(command program.Command, in io.Reader, out io.Writer) {
		started := make(chan struct{})
		command.Cwd = "/"
		running.Go(func() {
			end, err := g.agent.Exec(ctx, command, program.Attach{Stdin: in, Stdout: out, Started: func(program.Process) { close(started) }})
			if err != nil || end.Code != 0 {
				t.Errorf("%v ended with %+v, %v", command.Argv, end, err)
			}
		})
		select {
		case <-started:
		case <-ctx.Done():
			t.Fatal("not started:", command.Argv)
		}
	}
	run(program.Command{Argv: []string{"sh"}, TTY: &program.Terminal{Cols: 77, Rows: 33}}, keys, terminal)
	run(program.Command{Argv: []string{"sh", "-c", "seq 1 20000; echo over >/run/printed; read go </run/go; echo and on"}}, nil, unread)
	io.WriteString(typed, "word=of-before; stty size; cd /usr/share\n")
	g.until(t, func() bool { return strings.Contains(terminal.String(), "33 77") })
	g.until(t, func() bool { return g.shell(t, "cat /run/printed 2>/dev/null; :") == "over" })

	count := g.number(t, "/run/count")
	link.hold()
	dir := g.save(t)
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	spec := s.again(t, g, dir)
	m, err := s.driver.Start(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Err(); err != nil {
			t.Error("it has ended:", err)
		}
		m.Close()
	}()
	g.Machine, g.spec = m, spec
	link.to(m.Link())
	g.wake(t)

	io.WriteString(typed, "echo $word in $PWD on $(tty); exit\n")
	g.until(t, func() bool { return strings.Contains(terminal.String(), "of-before in /usr/share on /dev/pts/") })
	close(unread.gate)
	g.shell(t, "echo on >/run/go")
	running.Wait()
	typed.Close()
	var want bytes.Buffer
	for i := range 20000 {
		fmt.Fprintln(&want, i+1)
	}
	if got := unread.String(); got != want.String()+"and on\n" {
		t.Errorf("unread output after the restore: got %d bytes, want %d", len(got), want.Len()+7)
	}
	g.until(t, func() bool { return g.number(t, "/run/count") > count })
	if got := g.shell(t, "cat /etc/kept /etc/unflushed; cd /root; sha256sum -c sum"); got != "kept\nunflushed\nrandom: OK" {
		t.Errorf("its disk has %q", got)
	}
	g.answers(t)
}

// forks resumes several machines from one folder while the saved machine continues to run.
func (s suite) forks(t *testing.T) {
	s.savable(t)
	g := s.renewed(t, other)
	g.shell(t, counting)
	g.shell(t, "echo "+t.Name()+" >/run/mine; echo 0 >/etc/who")
	dir := g.save(t)
	if err := g.Machine.(machine.Pauser).Resume(context.Background()); err != nil {
		t.Fatal(err)
	}
	all := []*guest{g}
	for range 3 {
		fork := s.startAs(t, s.again(t, g, dir))
		fork.renew(t)
		all = append(all, fork)
	}
	seen := map[string]int{}
	for i, g := range all {
		g.shell(t, fmt.Sprintf("test $(cat /etc/who) = 0; echo %d >/etc/who; echo %d >/run/who", i, i))
		unique := []string{"head -c 16 /dev/urandom | od -An -tx1", "cat /etc/machine-id", "uname -n", "cat /proc/sys/kernel/random/uuid"}
		if s.driver.Features().OwnKernel {
			unique = append(unique, "cat /proc/sys/kernel/random/boot_id")
		}
		for _, what := range unique {
			seen[g.shell(t, what)]++
		}
		if id := g.shell(t, "cat /etc/machine-id"); id != g.identity.MachineID {
			t.Errorf("machine %d: got %s, want %s", i, id, g.identity.MachineID)
		}
	}
	for what, n := range seen {
		if n > 1 {
			t.Errorf("%d machines have %s", n, what)
		}
	}
	for i, g := range all {
		if got := g.shell(t, "cat /etc/who /run/who /run/mine"); got != fmt.Sprintf("%d\n%d\n%s", i, i, t.Name()) {
			t.Errorf("machine %d has %q", i, got)
		}
		before := g.number(t, "/run/count")
		g.until(t, func() bool { return g.number(t, "/run/count") > before })
	}
}
