package pyro

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

func (p *Pyro) exec1(t *testing.T, req ExecWorkspaceRequest) *WorkspaceExecResult {
	t.Helper()
	r, err := p.ExecWorkspace(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// entry returns a command from a workspace's history.
func (p *Pyro) entry(t *testing.T, id string, sequence int) CommandEntry {
	t.Helper()
	logs, err := p.LogsWorkspace(t.Context(), id)
	if err != nil || logs.Count != len(logs.Entries) {
		t.Fatalf("%+v, %v", logs, err)
	}
	i := slices.IndexFunc(logs.Entries, func(e CommandEntry) bool { return e.Sequence == sequence })
	if i < 0 {
		t.Fatalf("%d is not in %+v", sequence, logs)
	}
	return logs.Entries[i]
}

// TestExecWorkspace runs commands in one workspace, one after the other and at the same time.
func TestExecWorkspace(t *testing.T) {
	p := withWorkspaces(t)
	id := p.create(t, nil)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *Pyro, string)
	}{
		{"Concurrent", testConcurrentExecs}, // must run first, because it expects certain sequence numbers
		{"Inputs", testExecInputs},
		{"NotExecutable", testExecNotExecutable},
		{"TimeLimit", testExecTimeLimit},
		{"BinaryOutput", testExecBinaryOutput},
		{"Cancel", testExecCancel},
		{"FailingWriter", testExecFailingWriter},
		{"Signals", testExecSignals},
		{"LargeHistory", testExecLargeHistory},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, p, id) })
	}
}

func testExecInputs(t *testing.T, p *Pyro, id string) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".profile"), []byte("FROM_PROFILE=read\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	made := p.exec1(t, ExecWorkspaceRequest{WorkspaceID: id, Argv: []string{"mkdir", "-p", "sub/folder"}})
	if made.ExitCode != 0 {
		t.Fatalf("%+v", made)
	}
	before := made.Sequence
	for name, c := range map[string]struct {
		req            ExecWorkspaceRequest
		stdout, stderr string
		code           int
		cwd            string
	}{
		"an unchanged argv":        {ExecWorkspaceRequest{Argv: []string{"printf", "%s|", "a b", "$HOME", "*", ""}}, "a b|$HOME|*||", "", 0, "/workspace"},
		"a line for a login shell": {ExecWorkspaceRequest{Command: `echo "$0 $FROM_PROFILE" $((6 * 7))`, Env: map[string]string{"HOME": home}}, "/bin/sh read 42\n", "", 0, "/workspace"},
		"its own environment":      {ExecWorkspaceRequest{Argv: []string{"sh", "-c", `echo "$A,$B"`}, Env: map[string]string{"A": "1 2", "B": "ü"}}, "1 2,ü\n", "", 0, "/workspace"},
		"both streams and a code":  {ExecWorkspaceRequest{Command: `echo out; echo err >&2; exit 3`}, "out\n", "err\n", 3, "/workspace"},
		"input":                    {ExecWorkspaceRequest{Argv: []string{"cat"}, Stdin: strings.NewReader("in")}, "in", "", 0, "/workspace"},
		"no input":                 {ExecWorkspaceRequest{Argv: []string{"cat"}}, "", "", 0, "/workspace"},
		"a relative folder":        {ExecWorkspaceRequest{Command: `basename "$(pwd)"; ls ..`, Cwd: "sub/folder"}, "folder\nfolder\n", "", 0, "/workspace/sub/folder"},
		"an absolute folder":       {ExecWorkspaceRequest{Command: `ls`, Cwd: "/workspace/sub"}, "folder\n", "", 0, "/workspace/sub"},
		"ended by a signal":        {ExecWorkspaceRequest{Command: `kill -9 $$`}, "", "", 137, "/workspace"},
		"a terminal":               {ExecWorkspaceRequest{Command: `stty size; echo "$TERM"`, TTY: &TTY{Size: WindowSize{100, 30}, Term: "vt100"}}, "30 100\r\nvt100\r\n", "", 0, "/workspace"},
	} {
		t.Run(name, func(t *testing.T) {
			c.req.WorkspaceID = id
			r := p.exec1(t, c.req)
			if r.Stdout != c.stdout || r.Stderr != c.stderr || r.ExitCode != c.code || r.Cwd != c.cwd || r.TimedOut || r.NotRun != "" {
				t.Errorf("%+v", r)
			}
			if r.WorkspaceID != id || r.ExecutionMode != HostCompat || r.Isolation != IsolationNone || r.StdoutEncoding != UTF8 || r.StderrEncoding != UTF8 {
				t.Errorf("%+v", r)
			}
			if r.Sequence <= before || (r.Signal == 9) != (r.ExitCode == 137) {
				t.Errorf("%+v, after %d", r, before)
			}
			before = r.Sequence
		})
	}
}

func testExecNotExecutable(t *testing.T, p *Pyro, id string) {
	for name, req := range map[string]ExecWorkspaceRequest{
		"no such program": {WorkspaceID: id, Argv: []string{"no-such-program"}},
		"no such folder":  {WorkspaceID: id, Argv: []string{"true"}, Cwd: "none"},
	} {
		r := p.exec1(t, req)
		if r.NotRun == "" || r.ExitCode != 127 && r.ExitCode != 126 {
			t.Errorf("%s: %+v", name, r)
		}
		if e := p.entry(t, id, r.Sequence); e.NotRun != r.NotRun || e.ExitCode == nil || *e.ExitCode != r.ExitCode {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func testExecTimeLimit(t *testing.T, p *Pyro, id string) {
	began := time.Now()
	req := ExecWorkspaceRequest{WorkspaceID: id, Command: `echo begun; echo err >&2; sleep 600 & sleep 600`, TimeoutSeconds: 1}
	r := p.exec1(t, req)
	for r.TimedOut && !strings.Contains(r.Stderr, "err\n") { // the limit was over before the output
		req.TimeoutSeconds *= 2
		began = time.Now()
		r = p.exec1(t, req)
	}
	notice := fmt.Sprintf("the command timed out after %d s\n", req.TimeoutSeconds)
	if r.ExitCode != 124 || !r.TimedOut || r.Stdout != "begun\n" || r.Stderr != "err\n"+notice || time.Since(began) > testenv.Patience {
		t.Errorf("%+v after %s", r, time.Since(began))
	}
	if e := p.entry(t, id, r.Sequence); !e.TimedOut || e.ExitCode == nil || *e.ExitCode != 124 || e.Stderr != "err\n" || e.EndedAt == nil {
		t.Errorf("%+v", e)
	}
	var stderr bytes.Buffer
	if r = p.exec1(t, ExecWorkspaceRequest{WorkspaceID: id, Command: `sleep 60`, TimeoutSeconds: 1, Stderr: &stderr}); r.ExitCode != 124 || r.Stderr != "the command timed out after 1 s\n" || stderr.Len() > 0 {
		t.Errorf("%+v, and written %q", r, &stderr)
	}
}

func testExecBinaryOutput(t *testing.T, p *Pyro, id string) {
	r := p.exec1(t, ExecWorkspaceRequest{WorkspaceID: id, Argv: []string{"sh", "-c", `printf '\377\000'; echo text >&2`}})
	stdout, stderr := r.Output()
	if r.Stdout != "/wA=" || r.StdoutEncoding != Base64 || r.StderrEncoding != UTF8 || string(stdout) != "\xff\x00" || string(stderr) != "text\n" {
		t.Errorf("%+v", r)
	}
	if e := p.entry(t, id, r.Sequence); e.Stdout != "/wA=" || e.StdoutEncoding != Base64 || e.StdoutBytes != 2 {
		t.Errorf("%+v", e)
	}
}

func testExecCancel(t *testing.T, p *Pyro, id string) {
	before := p.exec1(t, ExecWorkspaceRequest{WorkspaceID: id, Argv: []string{"true"}})
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	pid := 0
	_, err := p.ExecWorkspace(ctx, ExecWorkspaceRequest{
		WorkspaceID: id, Argv: []string{"sh", "-c", `echo $$; exec sleep 60`},
		Stdout: writer(func(b []byte) (int, error) {
			pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
			cancel(enough)
			return len(b), nil
		}),
	})
	if KindOf(err) != Canceled || !errors.Is(err, enough) || pid == 0 {
		t.Fatalf("%s: %v, process %d", KindOf(err), err, pid)
	}
	testenv.Eventually(t, "the command has ended", func() bool { return syscall.Kill(pid, 0) != nil })
	// The supervisor records the end a moment later.
	testenv.Eventually(t, "the end is recorded", func() bool { return p.entry(t, id, before.Sequence+1).EndedAt != nil })
	if e := p.entry(t, id, before.Sequence+1); e.ExitCode != nil || e.Broken == "" || e.StdoutBytes == 0 {
		t.Errorf("%+v", e)
	}
}

func testExecFailingWriter(t *testing.T, p *Pyro, id string) {
	_, err := p.ExecWorkspace(t.Context(), ExecWorkspaceRequest{
		WorkspaceID: id, Command: `while :; do echo more; done`,
		Stdout: writer(func([]byte) (int, error) { return 0, syscall.ENOSPC }),
	})
	if KindOf(err) != Exhausted || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%s: %v", KindOf(err), err)
	}
}

func testExecSignals(t *testing.T, p *Pyro, id string) {
	signals := make(chan syscall.Signal, 1)
	r := p.exec1(t, ExecWorkspaceRequest{
		WorkspaceID: id, Command: `trap 'exit 9' INT; echo ready; sleep 30 & wait`, Signals: signals,
		Stdout: writer(func(b []byte) (int, error) {
			signals <- syscall.SIGINT
			return len(b), nil
		}),
	})
	if r.ExitCode != 9 {
		t.Errorf("%+v", r)
	}
}

func testConcurrentExecs(t *testing.T, p *Pyro, id string) {
	const many = 8
	var all sync.WaitGroup
	var sequences [many]int
	for i := range many {
		all.Go(func() {
			want := strconv.Itoa(i)
			r, err := p.ExecWorkspace(t.Context(), ExecWorkspaceRequest{WorkspaceID: id, Argv: []string{"sh", "-c", "sleep 0.1; echo " + want}})
			if err != nil || r.Stdout != want+"\n" {
				t.Errorf("%+v, %v", r, err)
				return
			}
			sequences[i] = r.Sequence
		})
	}
	all.Wait()
	logs, err := p.LogsWorkspace(t.Context(), id)
	if err != nil || logs.Count != many {
		t.Fatalf("%+v, %v", logs, err)
	}
	for i, sequence := range sequences {
		e := logs.Entries[sequence-1]
		if e.Sequence != sequence || e.Stdout != strconv.Itoa(i)+"\n" || e.ExitCode == nil || *e.ExitCode != 0 || !e.EndedAt.After(e.StartedAt) || e.DurationMS < 100 {
			t.Errorf("%+v", e)
		}
	}
	if slices.Sort(sequences[:]); sequences[0] != 1 || sequences[many-1] != many {
		t.Errorf("%v", sequences)
	}
}

func testExecLargeHistory(t *testing.T, p *Pyro, id string) {
	r := p.exec1(t, ExecWorkspaceRequest{WorkspaceID: id, Command: `echo first; head -c 300000 /dev/zero | tr '\0' x; echo last; echo err >&2`})
	if len(r.Stdout) != 300011 || r.StdoutTruncated {
		t.Errorf("%d bytes, truncated: %v", len(r.Stdout), r.StdoutTruncated)
	}
	e := p.entry(t, id, r.Sequence)
	kept := len(e.Stdout) - HistoryBytes
	if e.StdoutBytes != 300011 || !e.StdoutTruncated || kept < 10 || kept > 100 || e.StderrTruncated || e.Stderr != "err\n" || e.StderrBytes != 4 {
		t.Errorf("%d bytes of %d, truncated %v; %q", len(e.Stdout), e.StdoutBytes, e.StdoutTruncated, e.Stderr)
	}
	if !strings.HasPrefix(e.Stdout, "first\nx") || !strings.HasSuffix(e.Stdout, "xlast\n") || !strings.Contains(e.Stdout, "234475 bytes are not kept") {
		t.Errorf("%.40q … %q", e.Stdout, e.Stdout[len(e.Stdout)-40:])
	}
	if want := []string{"/bin/sh", "-lc"}; !slices.Equal(e.Argv[:2], want) || e.Cwd != "/workspace" {
		t.Errorf("%q in %s", e.Argv, e.Cwd)
	}
}
