package client

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
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
	testenv.NeedsRoot(t, "become another user")
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
