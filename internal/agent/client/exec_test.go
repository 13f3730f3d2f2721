package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

func TestExitCodes(t *testing.T) {
	c := dial(t, startAgent(t))
	for code := range 256 {
		if got := run(t, c, sh("exit "+strconv.Itoa(code)), nil); got.Code != code || got.Signal != 0 || got.StartFailure {
			t.Errorf("exit %d: %+v", code, got)
		}
	}
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGKILL, syscall.SIGSEGV, syscall.SIGPIPE, syscall.SIGTERM, syscall.SIGUSR2} {
		if got := run(t, c, sh(fmt.Sprintf("ulimit -c 0; kill -%d $$", sig)), nil); got.Code != 128+int(sig) || got.Signal != int(sig) {
			t.Errorf("%v: %+v", sig, got)
		}
	}
}

func TestStartFailures(t *testing.T) {
	c := dial(t, startAgent(t))
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := file("plain", "#!/bin/sh\n", 0o644)
	for name, want := range map[string]struct {
		command Command
		code    int
		message string
	}{
		"not in PATH":           {Command{Argv: []string{"no-such-program"}}, 127, "no such file"},
		"no such path":          {Command{Argv: []string{"/no/such/program"}}, 127, "no such file"},
		"an empty name":         {Command{Argv: []string{""}}, 127, "no such file"},
		"no such interpreter":   {Command{Argv: []string{file("lost", "#!/no/such/interpreter\n", 0o755)}}, 127, "no such file"},
		"not executable":        {Command{Argv: []string{plain}}, 126, "permission denied"},
		"not executable, PATH":  {Command{Argv: []string{"plain"}, Env: []string{"PATH=/nowhere:" + dir}}, 126, "permission denied"},
		"a folder":              {Command{Argv: []string{dir}}, 126, "permission denied"},
		"no program":            {Command{Argv: []string{file("junk", "\x7fELFjunk", 0o755)}}, 126, "exec format error"},
		"argument too long":     {Command{Argv: []string{"true", strings.Repeat("x", 200<<10)}}, 126, "argument list too long"},
		"no such folder":        {Command{Argv: []string{"true"}, Cwd: "/no/such/folder"}, 126, "/no/such/folder"},
		"a file for a folder":   {Command{Argv: []string{"true"}, Cwd: plain}, 126, "not a directory"},
		"no such user":          {Command{Argv: []string{"true"}, User: "no-such-user"}, 126, "no such user"},
		"no such group":         {Command{Argv: []string{"true"}, User: "root:no-such-group"}, 126, "no such group"},
		"a message cut in half": {Command{Argv: []string{"true"}, User: strings.Repeat("é", 2000)}, 126, "éééé"},
	} {
		got := run(t, c, want.command, nil)
		if got.Code != want.code || !got.StartFailure || !strings.Contains(got.Message, want.message) || len(got.Message) > 1024 || got.out+got.errs != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestRefusedRequests(t *testing.T) {
	c := dial(t, startAgent(t))
	for name, want := range map[string]struct {
		command Command
		kind    fault.Kind
	}{
		"no command":        {Command{}, fault.Invalid},
		"10 MB of words":    {Command{Argv: append([]string{"true"}, strings.Split(strings.Repeat("x", 99)+strings.Repeat(" "+strings.Repeat("x", 99), 100_000), " ")...)}, fault.Exhausted},
		"4.5 MB of words":   {Command{Argv: append([]string{"true"}, strings.Split(strings.Repeat("x", 9999)+strings.Repeat(" "+strings.Repeat("x", 9999), 450), " ")...)}, fault.Invalid},
		"a zero byte":       {Command{Argv: []string{"true", "a\x00b"}}, fault.Invalid},
		"not UTF-8":         {Command{Argv: []string{"printf", "\xff"}}, fault.Invalid},
		"no variable":       {Command{Argv: []string{"true"}, Env: []string{"NAME"}}, fault.Invalid},
		"a relative folder": {Command{Argv: []string{"true"}, Cwd: "tmp"}, fault.Invalid},
		"a huge terminal":   {Command{Argv: []string{"true"}, TTY: &Terminal{Cols: 1001, Rows: 1}}, fault.Invalid},
		"a long id":         {Command{Argv: []string{"true"}, ID: strings.Repeat("x", 65)}, fault.Invalid},
	} {
		if _, err := c.Exec(within(t, 10*time.Second), want.command, nil, nil, nil); fault.KindOf(err) != want.kind {
			t.Errorf("%s: %s: %v", name, fault.KindOf(err), err)
		}
	}
	if got := run(t, c, sh("echo still there"), nil); got.out != "still there\n" {
		t.Errorf("%+v", got)
	}
}

func TestEnvironmentAndFolder(t *testing.T) {
	c := dial(t, startAgent(t))
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "here"), []byte("#!/bin/sh\necho \"$0 in $PWD\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		command Command
		out     string
	}{
		"added":               {Command{Argv: []string{"printenv", "A"}, Env: []string{"A=b=c"}}, "b=c\n"},
		"the last counts":     {Command{Argv: []string{"printenv", "A"}, Env: []string{"A=1", "A=2"}}, "2\n"},
		"PATH replaced":       {Command{Argv: []string{"/usr/bin/printenv", "PATH"}, Env: []string{"PATH=/bin"}}, "/bin\n"},
		"HOME replaced":       {Command{Argv: []string{"printenv", "HOME"}, Env: []string{"HOME=/x"}}, "/x\n"},
		"empty":               {Command{Argv: []string{"printenv", "A"}, Env: []string{"A="}}, "\n"},
		"folder":              {Command{Argv: []string{"pwd"}, Cwd: dir}, dir + "\n"},
		"program from folder": {Command{Argv: []string{"./here"}, Cwd: dir}, "./here in " + dir + "\n"},
		"PATH from folder":    {Command{Argv: []string{"here"}, Cwd: dir, Env: []string{"PATH=.:/bin:/usr/bin"}}, "./here in " + dir + "\n"},
		"words as they are":   {Command{Argv: []string{"printf", "%s|", "", "a b", "$HOME", "é\n"}}, "|a b|$HOME|é\n|"},
		"no terminal":         {sh("test -t 0 || echo none"), "none\n"},
		"no input":            {Command{Argv: []string{"cat"}}, ""},
	} {
		if got := run(t, c, want.command, nil); got.Code != 0 || got.out != want.out {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	c := dial(t, startAgent(t))
	if got := run(t, c, Command{Argv: []string{"sh", "-c", "id -u; id -g"}, User: "nobody:1"}, nil); got.out != "65534\n1\n" {
		t.Errorf("%+v", got)
	}
	if got := run(t, c, Command{Argv: []string{"id", "-u"}, User: "4242"}, nil); got.out != "4242\n" {
		t.Errorf("%+v", got)
	}
}

func TestInput(t *testing.T) {
	c := dial(t, startAgent(t))
	data := make([]byte, 10<<20)
	rand.New(rand.NewSource(1)).Read(data)
	if got := run(t, c, Command{Argv: []string{"cat"}}, bytes.NewReader(data)); got.out != string(data) {
		t.Errorf("cat gave %d bytes that are not those of its input", len(got.out))
	}
	if got := run(t, c, Command{Argv: []string{"cat"}}, strings.NewReader("")); got.out != "" || got.Code != 0 {
		t.Errorf("empty input: %+v", got)
	}
	// A process that does not want all of it ends as it likes.
	if got := run(t, c, Command{Argv: []string{"head", "-c", "3"}}, bytes.NewReader(data)); got.out != string(data[:3]) || got.Code != 0 {
		t.Errorf("head: %+v", got)
	}
	if got := run(t, c, sh("exec <&-; sleep 0.1; echo closed"), bytes.NewReader(data)); got.out != "closed\n" {
		t.Errorf("closed input: %+v", got)
	}
	// Input that nobody reads, and that somebody else keeps open, does not keep the command.
	if got := run(t, c, sh("sleep 0.3 >/dev/null 2>&1 & exit 4"), bytes.NewReader(data)); got.Code != 4 {
		t.Errorf("unread input: %+v", got)
	}
}

type failing struct{ after io.Reader }

var errBroken = errors.New("broken for the test")

func (f failing) Read(p []byte) (int, error) {
	if n, err := f.after.Read(p); err == nil {
		return n, nil
	}
	return 0, errBroken
}

// TestInputThatFails: input that is cut short must not look like input that has ended.
func TestInputThatFails(t *testing.T) {
	c := dial(t, startAgent(t))
	_, err := c.Exec(within(t, 10*time.Second), Command{Argv: []string{"cat"}, Env: []string{mark}}, failing{strings.NewReader("half")}, nil, nil)
	if !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
	gone(t, mark)
}

// TestInputWithoutEnd: a reader that never gives anything holds neither the command nor, once it gives something, the goroutine that reads it.
func TestInputWithoutEnd(t *testing.T) {
	c := dial(t, startAgent(t))
	r, w := io.Pipe()
	if got := run(t, c, sh("echo done"), r); got.out != "done\n" {
		t.Errorf("%+v", got)
	}
	w.Write([]byte("late")) // goleak tells whether the reader has gone
	r.Close()
}

func TestOutput(t *testing.T) {
	c := dial(t, startAgent(t))
	if got := run(t, c, sh("echo a; echo b >&2; echo c; echo d >&2"), nil); got.out != "a\nc\n" || got.errs != "b\nd\n" {
		t.Errorf("%+v", got)
	}
	data := make([]byte, 1<<20)
	rand.New(rand.NewSource(2)).Read(data)
	file := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := run(t, c, Command{Argv: []string{"cat", file}}, nil); got.out != string(data) {
		t.Errorf("binary output: %d bytes, not those that were written", len(got.out))
	}
	var first time.Duration
	began := time.Now()
	_, err := c.Exec(within(t, 10*time.Second), sh("echo now; sleep 0.5"), nil, writerFunc(func(p []byte) (int, error) {
		first = time.Since(began)
		return len(p), nil
	}), nil)
	if err != nil || first > 300*time.Millisecond || first == 0 {
		t.Errorf("the first output came after %v: %v", first, err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// slow is a writer that takes its time, and hashes.
type slow struct {
	hash.Hash
	n    int
	each time.Duration
}

func (s *slow) Write(p []byte) (int, error) {
	time.Sleep(s.each)
	s.n += len(p)
	return s.Hash.Write(p)
}

// peakOf gives the largest resident set that the agent's processes have had, in KiB.
func peakOf(t *testing.T, c *Client) (kib int) {
	t.Helper()
	got := run(t, c, sh("cat /proc/$PPID/status"), nil)
	_, after, ok := strings.Cut(got.out, "VmHWM:")
	if !ok {
		t.Fatalf("no VmHWM in %q", got.out)
	}
	kib, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib
}

func TestMuchOutputToASlowReader(t *testing.T) {
	c := dial(t, startAgent(t))
	before := peakOf(t, c)
	const size = 64 << 20
	script := fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x; printf end; head -c 300000 /dev/zero >&2", size)
	out, errs := &slow{Hash: sha256.New(), each: time.Millisecond}, &slow{Hash: sha256.New()}
	exit, err := c.Exec(within(t, 60*time.Second), sh(script), nil, out, errs)
	if err != nil || exit.Code != 0 || exit.OutputHeld {
		t.Fatalf("%+v, %v", exit, err)
	}
	want := sha256.New()
	block := bytes.Repeat([]byte("x"), 1<<20)
	for range size / len(block) {
		want.Write(block)
	}
	want.Write([]byte("end"))
	if out.n != size+3 || errs.n != 300_000 || !bytes.Equal(out.Sum(nil), want.Sum(nil)) {
		t.Errorf("%d bytes of output, %d of errors arrived", out.n, errs.n)
	}
	if grown := peakOf(t, c) - before; grown > 40<<10 {
		t.Errorf("the agent grew by %d KiB", grown)
	}
}

// TestOutputAfterExit: what was written before the process ended arrives, however long after that it is read, and nobody is said to hold it.
func TestOutputAfterExit(t *testing.T) {
	c := dial(t, startAgent(t))
	const size = 1<<20 + 1<<16 + 3<<10 // more than a ring and a pipe
	total := 0
	out := writerFunc(func(p []byte) (int, error) {
		if total == 0 {
			time.Sleep(500 * time.Millisecond) // the ring is full for longer than the agent's patience
		}
		total += len(p)
		return len(p), nil
	})
	exit, err := c.Exec(within(t, 30*time.Second), sh(fmt.Sprintf("head -c %d /dev/zero", size)), nil, out, nil)
	if err != nil || total != size || exit.OutputHeld {
		t.Errorf("%d of %d bytes, %+v, %v", total, size, exit, err)
	}
}

func TestHeldOutput(t *testing.T) {
	c := dial(t, startAgent(t))
	for name, tty := range map[string]*Terminal{"pipe": nil, "terminal": {Cols: 80, Rows: 24}} {
		file := filepath.Join(t.TempDir(), "alive")
		// The child writes after the command is over, more than a pipe holds, and lives.
		command := sh("trap '' HUP; (sleep 0.4; head -c 200000 /dev/zero | tr '\\0' 'x'; echo fine > " + file + ") & echo started")
		command.TTY = tty
		began := time.Now()
		got := run(t, c, command, nil)
		if took := time.Since(began); took > 350*time.Millisecond {
			t.Errorf("%s: it took %v", name, took)
		}
		if !got.OutputHeld || got.Code != 0 || strings.TrimSpace(got.out) != "started" {
			t.Errorf("%s: %+v", name, got)
		}
		gone(t, mark)
		if b, _ := os.ReadFile(file); string(b) != "fine\n" {
			t.Errorf("%s: the child left %q", name, b)
		}
	}
}

// tree starts what is hard to kill: children in the same group, in sessions of their own, and without a parent.
const tree = "sleep 600 & setsid sleep 600 & (setsid sh -c 'sleep 600 & sleep 600' &) ; (sh -c 'sleep 600 &' &); echo up; sleep 600"

func TestTimeLimitKillsTheTree(t *testing.T) {
	c := dial(t, startAgent(t))
	command := sh(tree)
	command.Timeout = 300 * time.Millisecond
	began := time.Now()
	got := run(t, c, command, nil)
	if !got.TimedOut || got.Code != 137 || got.Signal != 9 || got.out != "up\n" {
		t.Errorf("%+v", got)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
	gone(t, mark)
	command = sh("true")
	command.Timeout = time.Nanosecond // of which nothing is left in milliseconds
	command.Argv = []string{"sleep", "5"}
	if got := run(t, c, command, nil); !got.TimedOut {
		t.Errorf("a tiny limit: %+v", got)
	}
}

func TestContextKillsTheTree(t *testing.T) {
	c := dial(t, startAgent(t))
	for name, script := range map[string]string{"tree": tree, "output that nobody takes": "echo up; exec yes"} {
		ctx, cancel := context.WithCancelCause(within(t, 20*time.Second))
		command := sh(script)
		command.Env = []string{mark}
		errWhy := errors.New("the caller had enough")
		blocked := make(chan struct{})
		_, err := c.Exec(ctx, command, nil, writerFunc(func(p []byte) (int, error) {
			if name != "tree" {
				time.Sleep(200 * time.Millisecond) // the ring fills
			}
			time.AfterFunc(50*time.Millisecond, func() { cancel(errWhy); close(blocked) })
			<-blocked
			return len(p), nil
		}), nil)
		if !errors.Is(err, errWhy) {
			t.Errorf("%s: %v", name, err)
		}
		gone(t, mark)
		cancel(nil)
	}
}

// TestCancelledEarly: a command whose caller goes while it is being started does not run on.
func TestCancelledEarly(t *testing.T) {
	c := dial(t, startAgent(t))
	for i := range 60 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*100*time.Microsecond)
		command := Command{Argv: []string{"sleep", "600"}, Env: []string{mark}}
		if _, err := c.Exec(ctx, command, nil, nil, nil); fault.KindOf(err) != fault.Timeout {
			t.Errorf("%v", err)
		}
		cancel()
	}
	gone(t, mark)
}

func TestWriterThatFails(t *testing.T) {
	c := dial(t, startAgent(t))
	_, err := c.Exec(within(t, 10*time.Second), Command{Argv: []string{"yes"}, Env: []string{mark}}, nil, writerFunc(func([]byte) (int, error) { return 0, errBroken }), nil)
	if !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
	gone(t, mark)
}

// eventually makes a call until it succeeds: what it is about is on its way.
func eventually(t testing.TB, call func() error) {
	t.Helper()
	var err error
	for range 500 {
		if err = call(); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error(err)
}

func TestSignal(t *testing.T) {
	c := dial(t, startAgent(t))
	command := sh("trap 'echo got it; exit 3' USR1; echo ready; while :; do sleep 0.02; done")
	command.ID = "signalled"
	ready := make(chan struct{})
	go func() {
		<-ready
		c.Signal(context.Background(), "signalled", syscall.SIGUSR1)
	}()
	var out bytes.Buffer
	var once sync.Once
	exit, err := c.Exec(within(t, 10*time.Second), command, nil, writerFunc(func(p []byte) (int, error) {
		once.Do(func() { close(ready) })
		return out.Write(p)
	}), nil)
	if err != nil || exit.Code != 3 || out.String() != "ready\ngot it\n" {
		t.Errorf("%+v, %q, %v", exit, out.String(), err)
	}
	command = sh(tree)
	command.ID = "killed"
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		eventually(t, func() error { return c.Kill(context.Background(), "killed") })
	}()
	if got := run(t, c, command, nil); got.Signal != 9 {
		t.Errorf("%+v", got)
	}
	<-killed
	gone(t, mark)
	if err := c.Signal(within(t, time.Second), "nobody", syscall.SIGTERM); fault.KindOf(err) != fault.NotFound {
		t.Errorf("an unknown command: %v", err)
	}
	if err := c.Signal(within(t, time.Second), "nobody", 0); err == nil {
		t.Errorf("signal 0 was sent")
	}
}

// background runs a command in the background, with an id, and gives what waits for its end.
func background(t *testing.T, c *Client, command Command) (wait func() (Exit, error)) {
	t.Helper()
	var exit Exit
	var err error
	done := make(chan struct{})
	command.Env = append(command.Env, mark)
	go func() {
		defer close(done)
		exit, err = c.Exec(context.Background(), command, nil, nil, nil)
	}()
	return func() (Exit, error) { <-done; return exit, err }
}

func TestKnownID(t *testing.T) {
	c := dial(t, startAgent(t))
	wait := background(t, c, Command{ID: "mine", Argv: []string{"sleep", "0.5"}})
	eventually(t, func() error { return c.Signal(context.Background(), "mine", syscall.SIGCONT) })
	if _, err := c.Exec(within(t, 5*time.Second), Command{ID: "mine", Argv: []string{"true"}}, nil, nil, nil); fault.KindOf(err) != fault.Exists {
		t.Errorf("the same id again: %v", err)
	}
	if exit, err := wait(); err != nil || exit.Code != 0 {
		t.Errorf("the other one was harmed: %+v, %v", exit, err)
	}
	if _, err := c.Exec(within(t, 5*time.Second), Command{ID: "mine", Argv: []string{"true"}}, nil, nil, nil); fault.KindOf(err) != fault.Exists {
		t.Errorf("an id that was used: %v", err)
	}
}

func TestTooManyCommands(t *testing.T) {
	c := dial(t, startAgent(t))
	const most = 256
	var waits []func() (Exit, error)
	for i := range most {
		waits = append(waits, background(t, c, Command{ID: strconv.Itoa(i), Argv: []string{"sleep", "600"}}))
	}
	for i := range most {
		eventually(t, func() error { return c.Signal(context.Background(), strconv.Itoa(i), syscall.SIGCONT) })
	}
	if _, err := c.Exec(within(t, 5*time.Second), Command{Argv: []string{"true"}}, nil, nil, nil); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("one more: %v", err)
	}
	for i := range most {
		if err := c.Signal(within(t, 10*time.Second), strconv.Itoa(i), syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
	for _, wait := range waits {
		if exit, err := wait(); err != nil || exit.Code != 143 {
			t.Errorf("%+v, %v", exit, err)
		}
	}
	run(t, c, sh("true"), nil) // all of them are forgotten
}

func TestRelease(t *testing.T) {
	c := dial(t, startAgent(t))
	ctx := within(t, 20*time.Second)
	rpc := c.current().rpc
	follow := func(id string) error {
		stream, err := rpc.Follow(ctx, connect.NewRequest(&agentv1.FollowRequest{ExecId: id}))
		if err != nil {
			return err
		}
		defer stream.Close()
		for stream.Receive() {
		}
		return stream.Err()
	}
	release := func(id string) {
		t.Helper()
		if _, err := rpc.Release(ctx, connect.NewRequest(&agentv1.ReleaseRequest{ExecId: id})); err != nil {
			t.Fatal(err)
		}
	}
	start := func(id string, argv ...string) {
		t.Helper()
		stream, err := rpc.Exec(ctx, connect.NewRequest(&agentv1.ExecRequest{ExecId: id, Argv: argv, Env: []string{mark}}))
		if err != nil {
			t.Fatal(err)
		}
		if !stream.Receive() {
			t.Fatal(stream.Err())
		}
		stream.Close()
	}
	start("ended", "echo", "x")
	if err := follow("ended"); err != nil {
		t.Error(err)
	}
	release("ended")
	release("ended")
	release("never heard of")
	if err := follow("ended"); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("a forgotten command: %v", err)
	}
	// One that runs, and waits for a reader that will not come, goes on to its end and is forgotten then.
	file := filepath.Join(t.TempDir(), "whole")
	start("running", "sh", "-c", "head -c 3000000 /dev/zero; echo whole > "+file)
	release("running")
	eventually(t, func() error {
		if err := follow("running"); connect.CodeOf(err) != connect.CodeNotFound {
			return fmt.Errorf("a released command: %v", err)
		}
		return nil
	})
	if b, _ := os.ReadFile(file); string(b) != "whole\n" {
		t.Errorf("it left %q", b)
	}
}
