//go:build machine

package test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// ignoring is the beginning of a command line. Its program ignores signals when it starts, as under
// nohup or in the background of a script.
var ignoring = []string{"env", "--ignore-signal=HUP,INT,TSTP"}

// foreignFile opens a file that no program of pyro may inherit.
func foreignFile(t *testing.T) *os.File {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "foreign"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

// checkNotInherited checks that no process has a file open, except this one and the given one.
// Until a child of this process executes its program, it has the file and the command line of this
// process.
func checkNotInherited(t *testing.T, file *os.File, except int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("/proc/self/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range all {
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(fd)), "cmdline"))
		if bytes.Equal(line, own) || strings.HasPrefix(fd, fmt.Sprintf("/proc/%d/", except)) {
			continue
		}
		if name, err := os.Readlink(fd); err == nil && name == file.Name() {
			t.Errorf("%s has the file open: %q", fd, line)
		}
	}
}

// TestWorkspaceInheritsNothing checks that the supervisor and the processes of the machine do not
// have a file open that the starter of pyro had open.
func TestWorkspaceInheritsNothing(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	file := foreignFile(t)
	cmd := p.command("workspace", "create", environment, "--json")
	cmd.ExtraFiles = []*os.File{file}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var made struct {
		ID string `json:"workspace_id"`
	}
	if err := json.Unmarshal(out, &made); err != nil {
		t.Fatal(err)
	}
	if supervisor, machine, running := p.find(made.ID); !running || supervisor == 0 || machine == 0 {
		t.Errorf("%d, %d, %v", supervisor, machine, running)
	}
	checkNotInherited(t, file, 0)
	p.must("workspace", "delete", made.ID)
}

// TestSessionInheritsNothing starts pty-mcp with ignored signals and an open file. A program on its
// terminals must get default signals and no such file.
func TestSessionInheritsNothing(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := newProgram(t).with("HOME", t.TempDir()) // login shells read files in the user's home folder
	file := foreignFile(t)
	p.under = ignoring
	cmd := p.command()
	cmd.Args[len(cmd.Args)-1] = fromBin(t, "pty-mcp")
	cmd.ExtraFiles = []*os.File{file}
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	call := func(tool string, args map[string]any) string {
		t.Helper()
		args["owner"] = "me"
		r, err := c.CallTool(context.Background(), &sdk.CallToolParams{Name: tool, Arguments: args})
		if err != nil || r.IsError {
			t.Fatalf("%s: %+v, %v", tool, r, err)
		}
		return r.Content[0].(*sdk.TextContent).Text
	}
	for _, backend := range []string{"subprocess", "tmux"} {
		id := call("pty_spawn", map[string]any{"command": "grep SigIgn /proc/self/status; exec sleep 1000", "backend": backend})
		text := call("pty_read_until", map[string]any{"session_id": id, "pattern": "\n", "timeout_ms": 60000})
		if !strings.Contains(text, `0000000\r`) { // signals 1 to 28; the C library can ignore signal 32
			t.Errorf("%s: %s", backend, text)
		}
		checkNotInherited(t, file, cmd.Process.Pid)
		call("pty_close", map[string]any{"session_id": id})
	}
}

// TestRunIgnoresHangup checks that pyro under nohup continues after a hangup.
func TestRunIgnoresHangup(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	p.under = ignoring
	cmd := p.command("run", environment, "--", "sh", "-c", "echo ready; read -r line; echo got $line")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGHUP} {
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	io.WriteString(in, "it\n")
	if rest, err := io.ReadAll(lines); string(rest) != "got it\n" || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
