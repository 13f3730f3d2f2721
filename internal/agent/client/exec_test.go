package client

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestExitCodes(t *testing.T) {
	c := dial(t, startAgent(t))
	for code := range 256 {
		if got := run(t, c, sh("exit "+strconv.Itoa(code)), nil); got.Code != code || got.Signal != 0 || got.NotRun != "" {
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
		command program.Command
		code    int
		message string
	}{
		"not in PATH":           {program.Command{Argv: []string{"no-such-program"}}, 127, "no such file"},
		"no such path":          {program.Command{Argv: []string{"/no/such/program"}}, 127, "no such file"},
		"an empty name":         {program.Command{Argv: []string{""}}, 127, "no such file"},
		"no such interpreter":   {program.Command{Argv: []string{file("lost", "#!/no/such/interpreter\n", 0o755)}}, 127, "no such file"},
		"not executable":        {program.Command{Argv: []string{plain}}, 126, "permission denied"},
		"not executable, PATH":  {program.Command{Argv: []string{"plain"}, Env: []string{"PATH=/nowhere:" + dir}}, 126, "permission denied"},
		"a folder":              {program.Command{Argv: []string{dir}}, 126, "permission denied"},
		"no program":            {program.Command{Argv: []string{file("junk", "\x7fELFjunk", 0o755)}}, 126, "exec format error"},
		"argument too long":     {program.Command{Argv: []string{"true", strings.Repeat("x", 200<<10)}}, 126, "an argument or variable has 204800 bytes, and Linux allows 131071: write the text to a file"},
		"variable too long":     {program.Command{Argv: []string{"true"}, Env: []string{"A=" + strings.Repeat("x", 200<<10)}}, 126, "an argument or variable has 204802 bytes"},
		"arguments too long":    {program.Command{Argv: append([]string{"true"}, slices.Repeat([]string{strings.Repeat("x", 99<<10)}, 40)...)}, 126, "too long together"},
		"no such folder":        {program.Command{Argv: []string{"true"}, Cwd: "/no/such/folder"}, 126, "/no/such/folder"},
		"a file for a folder":   {program.Command{Argv: []string{"true"}, Cwd: plain}, 126, "not a directory"},
		"a message cut in half": {program.Command{Argv: []string{"true"}, Cwd: "/" + strings.Repeat("é", 2000)}, 126, "éééé"},
	} {
		got := run(t, c, want.command, nil)
		if got.Code != want.code || got.NotRun == "" || !strings.Contains(got.NotRun, want.message) || len(got.NotRun) > 1024 || got.out+got.errs != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestRefusedRequests(t *testing.T) {
	c := dial(t, startAgent(t))
	for name, want := range map[string]struct {
		command program.Command
		kind    fault.Kind
	}{
		"no command":        {program.Command{}, fault.Invalid},
		"10 MB of words":    {program.Command{Argv: append([]string{"true"}, strings.Split(strings.Repeat("x", 99)+strings.Repeat(" "+strings.Repeat("x", 99), 100_000), " ")...)}, fault.Exhausted},
		"4.5 MB of words":   {program.Command{Argv: append([]string{"true"}, strings.Split(strings.Repeat("x", 9999)+strings.Repeat(" "+strings.Repeat("x", 9999), 450), " ")...)}, fault.Invalid},
		"a zero byte":       {program.Command{Argv: []string{"true", "a\x00b"}}, fault.Invalid},
		"not UTF-8":         {program.Command{Argv: []string{"printf", "\xff"}}, fault.Invalid},
		"no variable":       {program.Command{Argv: []string{"true"}, Env: []string{"NAME"}}, fault.Invalid},
		"a relative folder": {program.Command{Argv: []string{"true"}, Cwd: "tmp"}, fault.Invalid},
		"a huge terminal":   {program.Command{Argv: []string{"true"}, TTY: &program.Terminal{Cols: 1001, Rows: 1}}, fault.Invalid},
		"a long id":         {program.Command{Argv: []string{"true"}, ID: strings.Repeat("x", 65)}, fault.Invalid},
		"no such user":      {program.Command{Argv: []string{"true"}, User: "no-such-user"}, fault.Invalid},
		"no such group":     {program.Command{Argv: []string{"true"}, User: "root:no-such-group"}, fault.Invalid},
		"a huge user":       {program.Command{Argv: []string{"true"}, User: strings.Repeat("é", 1<<20)}, fault.Invalid},
	} {
		if _, err := c.Exec(within(t), want.command, program.Attach{}); fault.KindOf(err) != want.kind {
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
	if err := testenv.WriteProgram(filepath.Join(dir, "here"), []byte("#!/bin/sh\necho \"$0 in $PWD\"\n")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		command program.Command
		out     string
	}{
		"added":                 {program.Command{Argv: []string{"printenv", "A"}, Env: []string{"A=b=c"}}, "b=c\n"},
		"the last counts":       {program.Command{Argv: []string{"printenv", "A"}, Env: []string{"A=1", "A=2"}}, "2\n"},
		"PATH replaced":         {program.Command{Argv: []string{"/usr/bin/printenv", "PATH"}, Env: []string{"PATH=/bin"}}, "/bin\n"},
		"HOME replaced":         {program.Command{Argv: []string{"printenv", "HOME"}, Env: []string{"HOME=/x"}}, "/x\n"},
		"empty":                 {program.Command{Argv: []string{"printenv", "A"}, Env: []string{"A="}}, "\n"},
		"folder":                {program.Command{Argv: []string{"pwd"}, Cwd: dir}, dir + "\n"},
		"program from folder":   {program.Command{Argv: []string{"./here"}, Cwd: dir}, "./here in " + dir + "\n"},
		"PATH from folder":      {program.Command{Argv: []string{"here"}, Cwd: dir, Env: []string{"PATH=.:/bin:/usr/bin"}}, "./here in " + dir + "\n"},
		"words are not changed": {program.Command{Argv: []string{"printf", "%s|", "", "a b", "$HOME", "é\n"}}, "|a b|$HOME|é\n|"},
		"no terminal":           {sh("test -t 0 || echo none"), "none\n"},
		"no input":              {program.Command{Argv: []string{"cat"}}, ""},
	} {
		if got := run(t, c, want.command, nil); got.Code != 0 || got.out != want.out {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAnotherUser(t *testing.T) {
	testenv.NeedsRoot(t, "become another user")
	c := dial(t, startAgent(t))
	if got := run(t, c, program.Command{Argv: []string{"sh", "-c", "id -u; id -g"}, User: "nobody:1"}, nil); got.out != "65534\n1\n" {
		t.Errorf("%+v", got)
	}
	if got := run(t, c, program.Command{Argv: []string{"id", "-u"}, User: "4242"}, nil); got.out != "4242\n" {
		t.Errorf("%+v", got)
	}
}

func TestInput(t *testing.T) {
	c := dial(t, startAgent(t))
	data := make([]byte, 10<<20)
	rand.New(rand.NewSource(1)).Read(data)
	if got := run(t, c, program.Command{Argv: []string{"cat"}}, bytes.NewReader(data)); got.out != string(data) {
		t.Errorf("output of cat has %d bytes and differs from its input", len(got.out))
	}
	if got := run(t, c, program.Command{Argv: []string{"cat"}}, strings.NewReader("")); got.out != "" || got.Code != 0 {
		t.Errorf("empty input: %+v", got)
	}
	// A process can end without reading all of its input.
	if got := run(t, c, program.Command{Argv: []string{"head", "-c", "3"}}, bytes.NewReader(data)); got.out != string(data[:3]) || got.Code != 0 {
		t.Errorf("head: %+v", got)
	}
	if got := run(t, c, sh("exec <&-; sleep 0.1; echo closed"), bytes.NewReader(data)); got.out != "closed\n" {
		t.Errorf("closed input: %+v", got)
	}
	// A command ends even if nobody reads its input and another process has inherited it.
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

// TestFailingInput checks that a read error of the input is not treated as the end of the input.
func TestFailingInput(t *testing.T) {
	c := dial(t, startAgent(t))
	_, err := c.Exec(within(t), program.Command{Argv: []string{"cat"}, Env: []string{mark}}, program.Attach{Stdin: failing{strings.NewReader("half")}})
	if !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
	gone(t, mark)
}

// TestEndlessInput uses an input reader that blocks. It checks that the command still ends. The
// goroutine that reads the input ends when the reader returns data.
func TestEndlessInput(t *testing.T) {
	c := dial(t, startAgent(t))
	r, w := io.Pipe()
	if got := run(t, c, sh("echo done"), r); got.out != "done\n" {
		t.Errorf("%+v", got)
	}
	w.Write([]byte("late")) // goleak checks that this ends the goroutine
	r.Close()
}
