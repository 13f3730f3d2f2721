//go:build machine

package test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// recipes lists the examples by the name of the program. It contains the expected output of the Go
// and Python versions, and additional checks.
var recipes = map[string]struct {
	prints string
	check  func(t *testing.T, found []string)
}{
	"repro-fix": {
		`^created ws-\w+ with 2 files, isolated by \w+\nthe tests end with exit code 1: FAILED \(failures=1\)\nroman\.py has \d+ bytes and knows XL: false\n` +
			`patched roman\.py\nthe tests end with exit code 0: OK\ndiff --git a/roman\.py b/roman\.py\n.*\n\+.*\(400, "CD"\).*exported to (\S+)\n` +
			`reset 1 time; anything differs from the baseline: false\nthe tests end with exit code 1: FAILED \(failures=1\)\n$`,
		func(t *testing.T, found []string) {
			fixed, err := os.ReadFile(found[1])
			if err != nil {
				t.Fatal(err)
			}
			if got := evaluate(t, fixed); got != 3999 {
				t.Errorf("exported program: got %d correct cases", got)
			}
		},
	},
	"review-eval": {
		`^ws-\w+ has the change, kept as "?to-review"?\n(?:check: [\w ]+\n){5}[^\n]*3999[^\n]* (\S+)\ndone: 1 commands, 2 edits, 1 shells, 1 exports\nafter the review differs from the baseline: roman\.py\n$`,
		func(t *testing.T, found []string) {
			var report struct{ Cases, Right int }
			if text, err := os.ReadFile(found[1]); err != nil || json.Unmarshal(text, &report) != nil || report.Cases != 3999 || report.Right != 3999 {
				t.Errorf("%s: %+v, %v", text, report, err)
			}
		},
	},
	"cold-start": {
		`^from nothing to running at http://(127\.0\.0\.1:\d+) in [\d.]+ s, isolated by \w+\n(?:\{"path": "/hello", "visits": \d\}\n){3}it is stopped, and nothing listens there any more\n` +
			`it logged 3 visits\n$`,
		func(t *testing.T, found []string) {
			if !strings.Contains(found[0], `"visits": 3}`) {
				t.Errorf("it did not count three visits")
			}
			if c, err := net.Dial("tcp", found[1]); err == nil {
				c.Close()
				t.Errorf("%s is open", found[1])
			}
		},
	},
	"untrusted": {
		`Internet: Network is unreachable.*name: Temporary failure in name resolution.*metadata: Network is unreachable.*emulator shows it: Network is unreachable` +
			`.*loopback: Connection refused.*read a file of the host: No such file or directory.*write a file of the host: 35 bytes written.*list the processes: \d+ seen` +
			`.*fork: 100 processes started.*fill the disk: 32 MiB written.*it ended with exit code 0\nprocesses it left in its machine: 100\nadded filler\nadded loot\.txt\n` +
			`on the host: the file is as it was, and nothing has connected\non its disk: /workspace/filler, 33554432 bytes\non its disk: /workspace/loot\.txt, \d+ bytes\n` +
			`.*its loot is ["']ws-\w+["'], .*tools of your own: (\S+), ext4\n$`,
		func(t *testing.T, found []string) {
			if strings.Contains(found[0], "REACHED") || strings.Contains(found[0], "\x1b") {
				t.Errorf("%q", found[0])
			}
			disk, err := os.Open(found[1])
			if err != nil {
				t.Fatal(err)
			}
			defer disk.Close()
			magic := make([]byte, 2) // magic number in the superblock of ext4
			if _, err := disk.ReadAt(magic, 1024+0x38); err != nil || !bytes.Equal(magic, []byte{0x53, 0xef}) {
				t.Errorf("the disk is not ext4: %x, %v", magic, err)
			}
		},
	},
	"parallel": {
		`^3 workspaces in [\d.]+ s\nall-pairs\.patch: the tests pass: true, 3999 cases are right\nno-pairs\.patch: the tests pass: false, 2047 cases are right\n` +
			`only-forties\.patch: the tests pass: true, 3599 cases are right\nthe best is all-pairs\.patch: (\S+)\n$`,
		func(t *testing.T, found []string) {
			dir := t.TempDir()
			cmd := exec.Command("bash", "-c", `set -e; cp ../examples/roman/*.py "$1"; cd "$1"; git -c init.defaultBranch=main init -q .; git apply "$2"`, "-", dir, found[1])
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			best, err := os.ReadFile(filepath.Join(dir, "roman.py"))
			if err != nil {
				t.Fatal(err)
			}
			if got := evaluate(t, best); got != 3999 {
				t.Errorf("with the best patch %d cases are right", got)
			}
		},
	},
}

// evaluate returns the number of evaluation cases that a roman.py passes.
func evaluate(t *testing.T, roman []byte) int {
	t.Helper()
	dir := t.TempDir()
	program, err := os.ReadFile("../examples/roman_evaluation.py")
	err = errors.Join(err, os.WriteFile(filepath.Join(dir, "roman.py"), roman, 0o644), os.WriteFile(filepath.Join(dir, "evaluation.py"), program, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", "evaluation.py", "report.json")
	cmd.Dir = dir
	out, err := cmd.Output()
	var report struct{ Right int }
	if err != nil || json.Unmarshal(out, &report) != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return report.Right
}

// command matches commands in examples/README.md.
var command = regexp.MustCompile("`((?:go run|python3) (?:\\./)?examples/(go|python|openai)/(\\w[\\w.-]*)[^`]*)`")

// exampleCommands returns these commands, by folder and name of the program.
func exampleCommands(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../examples/README.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := map[string]string{}
	for _, m := range command.FindAllStringSubmatch(string(page), -1) {
		name := m[3]
		if m[2] == "python" {
			name = strings.ReplaceAll(strings.TrimSuffix(name, ".py"), "_", "-")
		}
		commands[m[2]+"/"+name] = m[1]
	}
	return commands
}

// example returns a command that runs an example as documented. Temporary files of the command are
// in a folder of the test.
func (p *program) example(t *testing.T, line string, env ...string) *exec.Cmd {
	t.Helper()
	top, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	cmd := p.programFor(10*patience, "sh", "-c", "exec "+line)
	cmd.Dir = top
	cmd.Env = append(cmd.Env, "TMPDIR="+t.TempDir(), "PYTHONDONTWRITEBYTECODE=1", "no_proxy=127.0.0.1", "PYTHONPATH="+filepath.Join(top, "sdk/python/src"),
		"PYRO_PROGRAM="+filepath.Join(top, "bin/pyro"), "PYRO_RUNSC="+cmp.Or(os.Getenv("PYRO_RUNSC"), filepath.Join(top, "bin/pyro-runsc")))
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// built returns a command line that runs a Go example. It builds the example only once, because "go
// run" is slow and does not forward signals.
func built(t *testing.T, line string) string {
	t.Helper()
	rest, ok := strings.CutPrefix(line, "go run ")
	if !ok {
		return line
	}
	folder, args, _ := strings.Cut(rest, " ")
	program := filepath.Join(t.TempDir(), "example")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", program, folder)
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program + " " + args
}

// finished runs a command until it exits and returns the result.
func finished(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// TestGoRunCompilesLittle checks that `go run` finds all packages that an example imports in Go's
// cache. `make build` puts the packages there. The settings of `go run` must be those in
// examples/README.md.
func TestGoRunCompilesLittle(t *testing.T) {
	sameForAll(t)
	page, err := os.ReadFile("../examples/README.md")
	if err != nil {
		t.Fatal(err)
	}
	settings := regexp.MustCompile(`(?m)^export (CGO_ENABLED=.*)$`).FindSubmatch(page)
	if settings == nil {
		t.Fatal("the page has no settings for go run")
	}
	list := exec.Command("go", "list", "-deps", "-f", `{{if and .Stale (ne .Name "main")}}{{.ImportPath}}{{end}}`, "./examples/go/...")
	list.Dir, list.Env = "..", append(os.Environ(), strings.Fields(string(settings[1]))...)
	stale, err := list.Output()
	if err != nil || len(bytes.TrimSpace(stale)) > 0 {
		t.Errorf("go run compiles these anew: %v\n%s", err, stale)
	}
}

// TestExamples runs all examples in parallel, as documented. It checks their output and their
// cleanup.
func TestExamples(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := workspaces(t)
	commands := exampleCommands(t)
	t.Run("recipes", func(t *testing.T) {
		for name, recipe := range recipes {
			for _, language := range []string{"go", "python"} {
				key := language + "/" + name
				line := commands[key]
				if line == "" {
					t.Errorf("the page has no command for %s", key)
					continue
				}
				delete(commands, key)
				t.Run(key, func(t *testing.T) {
					t.Parallel()
					r := finished(t, p.example(t, line))
					found := regexp.MustCompile("(?is)" + recipe.prints).FindStringSubmatch(r.stdout)
					if r.code != 0 || found == nil {
						t.Fatalf("exit code %d, or it printed something else:\n%s%s", r.code, r.stdout, r.stderr)
					}
					recipe.check(t, found)
				})
			}
		}
	})
	if left := p.list(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	for key := range commands {
		if !strings.HasPrefix(key, "openai/") {
			t.Errorf("%s is on the page and has no test", key)
		}
	}
	if keys := slices.Sorted(maps.Keys(commands)); !slices.Equal(keys, []string{"openai/vm_run.py", "openai/workspace_core"}) {
		t.Errorf("on the page are %v", keys)
	}
}

// TestInterruptedExamples checks that interrupted examples delete their workspaces.
func TestInterruptedExamples(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	commands := exampleCommands(t)
	for _, key := range []string{"go/review-eval", "python/review-eval"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			p := workspaces(t)
			r := &running{Cmd: p.example(t, built(t, commands[key]), "PYTHONUNBUFFERED=1"), t: t, stderr: &bytes.Buffer{}}
			r.Stderr = r.stderr
			out, err := r.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Start(); err != nil {
				t.Fatal(err)
			}
			reader := bufio.NewReader(out)
			if first, err := reader.ReadString('\n'); err != nil || !strings.Contains(first, "has the change") {
				r.Wait()
				t.Fatalf("it said %q: %v\n%s", first, err, r.stderr)
			}
			if err := r.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			r.out = reader
			if end := r.end(); end.code == 0 || strings.Contains(end.stdout, "cases") {
				t.Errorf("it succeeded in spite of the failure: %+v", end)
			}
			if left := p.list(); len(left) > 0 {
				t.Errorf("left: %v\n%s", left, r.stderr)
			}
		})
	}
}
