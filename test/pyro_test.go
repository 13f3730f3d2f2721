//go:build machine

package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// patience is the maximum time of a run. It ends runs that hang. Emulation on a busy host is slow.
var patience = testenv.Patience

const environment = "debian:12"

// program runs bin/pyro with its own folders. Only the cache is shared.
type program struct {
	t     *testing.T
	state string
	temp  string
	cache string // path of the cache; empty means the user's cache
	env   []string
	under []string // beginning of the command line
}

func newProgram(t *testing.T) *program {
	t.Helper()
	return &program{t: t, state: t.TempDir(), temp: t.TempDir()}
}

// withCache returns the program with a cache that has its own templates. Environments and kernels
// are still shared.
func (p *program) withCache() *program {
	p.t.Helper()
	base, err := os.UserCacheDir()
	if err != nil {
		p.t.Fatal(err)
	}
	shared := filepath.Join(base, "pyro")
	if dir := os.Getenv("PYRO_CACHE_DIR"); dir != "" {
		shared = dir
	}
	p.cache = p.t.TempDir()
	for _, folder := range []string{"environments", "kernels"} {
		if err := os.Symlink(filepath.Join(shared, folder), filepath.Join(p.cache, folder)); err != nil {
			p.t.Fatal(err)
		}
	}
	return p
}

// with sets an environment variable of the program.
func (p *program) with(name, value string) *program {
	p.env = append(p.env, name+"="+value)
	return p
}

// emulated makes the program use QEMU's emulation, even if the host supports more.
func (p *program) emulated() *program { return p.with("PYRO_ISOLATION", "tcg") }

// sandboxed makes the program use gVisor. If the host can't run gVisor, it skips the test.
func (p *program) sandboxed() *program {
	p.t.Helper()
	p.with("PYRO_ISOLATION", "gvisor")
	if r := p.in("true"); r.code != 0 {
		testenv.Lacks(p.t, r.stderr)
	}
	return p
}

func (p *program) command(args ...string) *exec.Cmd {
	p.t.Helper()
	return p.commandFor(patience, args...)
}

// commandFor returns a command that is killed after a time limit.
func (p *program) commandFor(limit time.Duration, args ...string) *exec.Cmd {
	p.t.Helper()
	return p.programFor(limit, slices.Concat(p.under, []string{fromBin(p.t, "pyro")}, args)...)
}

// programFor returns a command that runs any program. It has pyro's folders in its environment.
func (p *program) programFor(limit time.Duration, argv ...string) *exec.Cmd {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	p.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = append(os.Environ(), "PYRO_STATE_DIR="+p.state, "TMPDIR="+p.temp)
	cmd.Env = append(cmd.Env, p.env...)
	if p.cache != "" {
		cmd.Env = append(cmd.Env, "PYRO_CACHE_DIR="+p.cache)
	}
	return cmd
}

// result is the result of a program that has exited.
type result struct {
	stdout, stderr string
	code           int
}

// run runs pyro with the given input, and checks that no files remain.
func (p *program) run(stdin io.Reader, args ...string) result {
	p.t.Helper()
	return p.runFor(patience, stdin, args...)
}

// runFor is like run, with another time limit.
func (p *program) runFor(limit time.Duration, stdin io.Reader, args ...string) result {
	p.t.Helper()
	cmd := p.commandFor(limit, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	p.checkNoLeftovers()
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// in runs a command in a new machine.
func (p *program) in(argv ...string) result {
	p.t.Helper()
	return p.run(nil, append([]string{"run", environment, "--"}, argv...)...)
}

// checkNoLeftovers checks that the folders of machines and temporary files are empty.
func (p *program) checkNoLeftovers() {
	p.t.Helper()
	for _, dir := range []string{filepath.Join(p.state, "machines"), p.temp} {
		left, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			p.t.Error(err)
		}
		if len(left) > 0 {
			p.t.Errorf("left in %s: %v", dir, left)
		}
	}
}

// running is a program that was started. Its output is read step by step.
type running struct {
	*exec.Cmd
	t      *testing.T
	out    io.Reader
	stderr *bytes.Buffer
}

func (p *program) start(args ...string) *running {
	p.t.Helper()
	r := &running{Cmd: p.commandFor(10*patience, args...), t: p.t, stderr: &bytes.Buffer{}} // a server runs until its test ends
	out, err := r.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	r.out, r.Stderr = out, r.stderr
	if err := r.Start(); err != nil {
		p.t.Fatal(err)
	}
	return r
}

// says reads the next line of the output and checks that it is the given line.
func (r *running) says(line string) {
	r.t.Helper()
	got := make([]byte, len(line)+1)
	if _, err := io.ReadFull(r.out, got); err != nil || string(got) != line+"\n" {
		r.t.Fatalf("it said %q, not %q: %v: %s", got, line, err, r.stderr)
	}
}

// end reads the remaining output. It returns the output and the exit code.
func (r *running) end() result {
	r.t.Helper()
	rest, err := io.ReadAll(r.out)
	if err != nil {
		r.t.Error(err)
	}
	r.Wait()
	return result{string(rest), r.stderr.String(), r.ProcessState.ExitCode()}
}

// machines returns the process ids of the machines that a process has started. These are QEMU
// processes and gVisor sentries.
func machines(owner int) []int { return children(owner, "qemu", "pyro-runsc") }

// children returns the process ids of a process's children. Their names begin with one of the
// prefixes. Without prefixes, children returns all.
func children(owner int, prefixes ...string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		head, rest, _ := strings.Cut(string(b), ") ")
		_, name, _ := strings.Cut(head, "(")
		named := len(prefixes) == 0 || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(owner) && named {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// gone waits until a process has ended.
func gone(pid int) error {
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(5 * time.Millisecond) {
		if ended(pid) {
			return nil
		}
	}
	return fmt.Errorf("process %d is still there", pid)
}

// ended reports whether a process has ended. The process can be a zombie until its parent reaps it.
func ended(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(rest, "Z")
}
