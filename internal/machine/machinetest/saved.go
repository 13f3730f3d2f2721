package machinetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
)

// relay is a link that comes to lead to another machine. Then it fails once, by which whoever uses it knows.
type relay struct {
	mu    sync.Mutex
	next  *sync.Cond
	conn  net.Conn
	moved bool // and has not failed since
	held  bool // it is about to lead elsewhere
}

func newRelay(conn net.Conn) *relay {
	r := &relay{conn: conn}
	r.next = sync.NewCond(&r.mu)
	return r
}

var errMoved = errors.New("the link leads to another machine now")

func (r *relay) current() net.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conn
}

// hold has whoever uses the link wait for the next machine. What is read until the first ends still comes.
func (r *relay) hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = true
}

func (r *relay) to(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conn, r.moved, r.held = conn, true, false
	r.next.Broadcast()
}

func (r *relay) Read(b []byte) (int, error) {
	if r.fails() {
		return 0, errMoved
	}
	n, err := r.current().Read(b)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && r.fails() {
		err = errMoved
	}
	return n, err
}

// fails waits while the link leads nowhere, and tells whether it has come to lead elsewhere since it failed last.
func (r *relay) fails() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.held {
		r.next.Wait()
	}
	moved := r.moved
	r.moved = false
	return moved
}

func (r *relay) Write(b []byte) (int, error) {
	r.mu.Lock()
	for r.held {
		r.next.Wait()
	}
	conn := r.conn
	r.mu.Unlock()
	return conn.Write(b)
}

func (r *relay) Close() error                       { return r.current().Close() }
func (r *relay) LocalAddr() net.Addr                { return r.current().LocalAddr() }
func (r *relay) RemoteAddr() net.Addr               { return r.current().RemoteAddr() }
func (r *relay) SetDeadline(t time.Time) error      { return r.current().SetDeadline(t) }
func (r *relay) SetReadDeadline(t time.Time) error  { return r.current().SetReadDeadline(t) }
func (r *relay) SetWriteDeadline(t time.Time) error { return r.current().SetWriteDeadline(t) }

// output is what a command prints. Until it is let go, who writes to it waits.
type output struct {
	mu    sync.Mutex
	bytes bytes.Buffer
	gate  chan struct{} // nil: it is open
}

func (o *output) Write(b []byte) (int, error) {
	if o.gate != nil {
		<-o.gate
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes.String()
}

// save saves a machine, which stands still then, and gives the folder.
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

// again gives the spec of a machine that goes on from what another was saved as.
func (s suite) again(t *testing.T, g *guest, dir string) machine.Spec {
	spec := s.spec(t, shape{g.spec.VCPUs, g.spec.MemMiB})
	spec.Saved = dir
	return spec
}

// renew makes a machine its own.
func (g *guest) renew(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	g.identity = client.NewIdentity(g.spec.ID)
	if err := g.agent.Renew(ctx, g.identity); err != nil {
		t.Fatal(err)
	}
}

// number gives the number in a file.
func (g *guest) number(t *testing.T, path string) int {
	t.Helper()
	n, err := strconv.Atoi(g.shell(t, "cat "+path))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// counting is a command line that counts for ever, in a file that is whole at all times.
const counting = `echo 0 >/run/count; (i=0; while :; do i=$((i+1)); echo $i >/run/part; mv /run/part /run/count; sleep 0.05; done) >/dev/null 2>&1 &`

// savable skips a test of a driver whose machines can't be saved, which it checks.
func (s suite) savable(t *testing.T) {
	if s.driver.Features().SavedState {
		return
	}
	g := s.start(t, usual)
	if _, ok := g.Machine.(machine.Saver); ok {
		t.Error("SavedState is false, and its machines are Savers")
	}
	t.Skip("its machines can't be saved")
}

// goesOn saves a machine in which all sorts of things are under way, and has it go on elsewhere, while those who use it wait.
func (s suite) goesOn(t *testing.T) {
	s.savable(t)
	g := s.start(t, other)
	link := newRelay(g.Link())
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

	// A terminal, and a process whose output nobody takes.
	terminal, unread := &output{}, &output{gate: make(chan struct{})}
	keys, typed := io.Pipe()
	var running sync.WaitGroup
	run := func(command client.Command, in io.Reader, out io.Writer) {
		started := make(chan struct{})
		command.Cwd, command.Started = "/", func(int) { close(started) }
		running.Go(func() {
			end, err := g.agent.Exec(ctx, command, in, out, nil)
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
	run(client.Command{Argv: []string{"sh"}, TTY: &client.Terminal{Cols: 77, Rows: 33}}, keys, terminal)
	run(client.Command{Argv: []string{"sh", "-c", "seq 1 20000; echo over >/run/printed; read go </run/go; echo and on"}}, nil, unread)
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
		t.Errorf("of the output nobody had taken %d bytes came, not %d", len(got), want.Len()+7)
	}
	g.until(t, func() bool { return g.number(t, "/run/count") > count })
	if got := g.shell(t, "cat /etc/kept /etc/unflushed; cd /root; sha256sum -c sum"); got != "kept\nunflushed\nrandom: OK" {
		t.Errorf("its disk has %q", got)
	}
	g.answers(t)
}

// forks starts several machines from one folder while the one that was saved goes on.
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
		for _, what := range []string{"head -c 16 /dev/urandom | od -An -tx1", "cat /etc/machine-id", "uname -n", "cat /proc/sys/kernel/random/uuid", "cat /proc/sys/kernel/random/boot_id"} {
			seen[g.shell(t, what)]++
		}
		if id := g.shell(t, "cat /etc/machine-id"); id != g.identity.MachineID {
			t.Errorf("machine %d is %s, and was to be %s", i, id, g.identity.MachineID)
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

// rounds saves a machine and has it go on many times: nothing is lost, and what is saved does not grow.
func (s suite) rounds(t *testing.T) {
	s.savable(t)
	g := s.renewed(t, other)
	g.shell(t, counting)
	var first int64
	for round := range 10 {
		before := g.number(t, "/run/count")
		dir := g.save(t)
		size := sizeOf(t, dir)
		if round == 1 { // the first round has done what every round does
			first = size
		}
		if round > 1 && size > first+first/4+16<<20 {
			t.Errorf("round %d: %d bytes, after %d", round, size, first)
		}
		g.agent.Close()
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		g = s.startAs(t, s.again(t, g, dir))
		g.renew(t)
		if err := os.RemoveAll(dir); err != nil { // a machine that goes on needs it no more
			t.Fatal(err)
		}
		g.until(t, func() bool { return g.number(t, "/run/count") > before })
	}
	g.answers(t)
}

// sizeOf is how many bytes a folder takes.
func sizeOf(t *testing.T, dir string) (total int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		total += info.Sys().(*syscall.Stat_t).Blocks * 512
	}
	return total
}

// saveGivenUp checks that a machine that could not be saved runs on, also where it writes to its memory as fast as it can.
func (s suite) saveGivenUp(t *testing.T) {
	s.savable(t)
	g := s.renewed(t, other)
	g.shell(t, counting)
	g.shell(t, `(while :; do head -c 60000000 /dev/zero | tr '\0' x >/run/fast; done) >/dev/null 2>&1 &`)
	for i := range 6 {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(context.Background())
		if i == 0 {
			cancel()
		}
		timer := time.AfterFunc(time.Duration(i)*60*time.Millisecond, cancel)
		err := g.Machine.(machine.Saver).Save(ctx, dir)
		timer.Stop()
		cancel()
		if err == nil {
			if i == 0 {
				t.Error("saved although that had been given up before")
			}
			if err := g.Machine.(machine.Pauser).Resume(context.Background()); err != nil {
				t.Fatal(err)
			}
		} else if left, _ := os.ReadDir(dir); fault.KindOf(err) != fault.Canceled || len(left) > 0 {
			t.Errorf("%v, and %v is left", err, left)
		}
		before := g.number(t, "/run/count")
		g.until(t, func() bool { return g.number(t, "/run/count") > before })
	}
	dir := g.save(t)
	before := g.identity.MachineID
	fork := s.startAs(t, s.again(t, g, dir))
	fork.renew(t)
	if fork.identity.MachineID == before {
		t.Error("it is the same")
	}
	fork.answers(t)
}

// savedRefused checks that what does not fit, or is not what was saved, is not gone on from.
func (s suite) savedRefused(t *testing.T) {
	s.savable(t)
	g := s.renewed(t, other)
	dir := g.save(t)
	g.Close()
	refused := func(kind fault.Kind, spec machine.Spec) error {
		t.Helper()
		m, err := s.driver.Start(context.Background(), spec)
		if err == nil {
			m.Close()
		}
		if fault.KindOf(err) != kind {
			t.Errorf("%v, which is not %s", err, kind)
		}
		leavesNothing(t, 0, spec.Dir)
		return err
	}
	for name, change := range map[string]func(*machine.Spec){
		"processors":  func(spec *machine.Spec) { spec.VCPUs++ },
		"memory":      func(spec *machine.Spec) { spec.MemMiB *= 2 },
		"environment": func(spec *machine.Spec) { spec.Root.Digest = "sha256:" + client.NewIdentity("").MachineID },
	} {
		spec := s.again(t, g, dir)
		change(&spec)
		if err := refused(fault.Precondition, spec); err != nil && !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	spec := s.again(t, g, dir)
	spec.Saved = t.TempDir()
	refused(fault.Corrupt, spec)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		path, whole := filepath.Join(dir, e.Name()), filepath.Join(t.TempDir(), "whole")
		size := copied(t, path, whole)
		for _, at := range []int64{0, size / 2, size - 1} {
			flip(t, path, at)
			if err := refused(fault.Corrupt, s.again(t, g, dir)); err != nil && !strings.Contains(err.Error(), e.Name()) {
				t.Errorf("%s, changed at %d: %v", e.Name(), at, err)
			}
			flip(t, path, at)
		}
		if err := os.Rename(whole, path); err != nil {
			t.Fatal(err)
		}
	}
	m := s.startAs(t, s.again(t, g, dir)) // it is as it was
	m.renew(t)
	m.answers(t)
}

// copied puts a copy in the place of a file, which may have names elsewhere, and keeps the file.
func copied(t *testing.T, path, whole string) (size int64) {
	t.Helper()
	if err := os.Rename(path, whole); err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(whole)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		t.Fatal(err)
	}
	to, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if err := errors.Join(disk.Copy(to, from), to.Chmod(info.Mode().Perm())); err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// flip changes one bit of a file.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}
