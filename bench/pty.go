package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pyro-mcp/pyro/internal/pty"
	"github.com/pyro-mcp/pyro/internal/session"
)

// terminals contains temporary folders for the measured terminals: a state folder and a home
// directory.
type terminals struct {
	*bench
	dir string // a folder on the file system that contains the user's state
}

// pty measures terminals on this host. It needs no machines.
func (b *bench) pty() (err error) {
	if err := os.MkdirAll(b.dirs.State, 0o700); err != nil {
		return err
	}
	t := &terminals{bench: b}
	if t.dir, err = os.MkdirTemp(b.dirs.State, "bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.remove()) }()
	for _, name := range []string{"home", "state"} {
		if err := os.Mkdir(filepath.Join(t.dir, name), 0o700); err != nil {
			return err
		}
	}
	for _, s := range []step{
		{"echo", t.echoed}, {"desktop-commander", t.comparePeer}, {"output", t.printed}, {"many sessions", t.crowded}, {"read_until", t.found},
	} {
		fmt.Fprintln(os.Stderr, "measuring pty:", s.name)
		if err := s.run(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// remove closes all sessions and removes the folders, even after an interruption.
func (t *terminals) remove() error {
	m := session.Manager{Root: filepath.Join(t.dir, "state", "sessions")}
	all, err := m.List()
	for _, s := range all {
		err = errors.Join(err, m.Close(context.WithoutCancel(t.ctx), s.ID))
	}
	return errors.Join(err, os.RemoveAll(t.dir))
}

// environment returns the environment variables of servers, and of programs on bare terminals.
func (t *terminals) environment(more ...string) []string {
	return append(os.Environ(), append(more, "HOME="+filepath.Join(t.dir, "home"), "PYRO_STATE_DIR="+filepath.Join(t.dir, "state"), "SHELL=/bin/bash", "TERM=xterm-256color")...)
}

// server is a client and its MCP server. The server is a pty-mcp process or a comparable program.
type server struct {
	*sdk.ClientSession
	ctx context.Context
	pid int
}

// server starts pty-mcp with additional environment variables.
func (t *terminals) server(settings ...string) (*server, error) {
	cmd := exec.CommandContext(t.ctx, "bin/pty-mcp")
	cmd.Env, cmd.Stderr = t.environment(settings...), os.Stderr
	return t.connect(cmd)
}

// connect starts a server and connects a client to it.
func (t *terminals) connect(cmd *exec.Cmd) (*server, error) {
	c, err := sdk.NewClient(&sdk.Implementation{Name: "bench"}, nil).Connect(t.ctx, &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		return nil, err
	}
	return &server{c, t.ctx, cmd.Process.Pid}, nil
}

// arguments contains the arguments of a tool call.
type arguments map[string]any

// call calls a tool. It returns the text, and the structured result if there is one.
func (s *server) call(tool string, a arguments) (text string, fields map[string]any, err error) {
	r, err := s.CallTool(s.ctx, &sdk.CallToolParams{Name: tool, Arguments: a})
	if err != nil {
		return "", nil, err
	}
	for _, c := range r.Content {
		if c, ok := c.(*sdk.TextContent); ok {
			text += c.Text
		}
	}
	if r.IsError {
		return "", nil, fmt.Errorf("%s: %s", tool, text)
	}
	fields, _ = r.StructuredContent.(map[string]any)
	return text, fields, nil
}

const owner = "bench"

// spawn starts a session and returns its ID.
func (s *server) spawn(command string) (id string, err error) {
	id, _, err = s.call("pty_spawn", arguments{"command": command, "owner": owner})
	return id, err
}

func (s *server) write(id, data string) error {
	_, _, err := s.call("pty_write", arguments{"session_id": id, "owner": owner, "data": data})
	return err
}

// until reads output until a pattern matches. It returns an error if the pattern does not match.
func (s *server) until(id, pattern string) (text string, err error) {
	return s.matched("pty_read_until", arguments{"session_id": id, "owner": owner, "pattern": pattern})
}

// matched calls a tool that waits for a pattern. It returns an error if the pattern does not match.
func (s *server) matched(tool string, a arguments) (text string, err error) {
	_, fields, err := s.call(tool, a)
	if err == nil && fields["matched"] != true {
		err = fmt.Errorf("%s: nothing matches in %q", tool, fields["text"])
	}
	text, _ = fields["text"].(string)
	return text, err
}

func (s *server) close(id string) error {
	_, _, err := s.call("pty_close", arguments{"session_id": id, "owner": owner})
	return err
}

// sessionProcesses returns the IDs of the processes that own the server's sessions.
func (s *server) sessionProcesses() []int {
	return slices.DeleteFunc(family(s.pid), func(pid int) bool {
		argv, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return !strings.Contains(string(argv), "\x00"+session.Command+"\x00")
	})
}

// bareTerminal is a terminal without a session. This process reads the terminal directly.
type bareTerminal struct {
	*os.File
	cmd  *exec.Cmd
	seen []byte
}

// bare runs a command in the same way as a session, but on a bare terminal.
func (t *terminals) bare(command string) (*bareTerminal, error) {
	cmd := exec.CommandContext(t.ctx, "bash", "-lc", command)
	cmd.Env = t.environment()
	controlling, tty, err := pty.Open()
	if err != nil {
		return nil, err
	}
	defer tty.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err = pty.SetSize(controlling, 120, 30); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		controlling.Close()
		return nil, err
	}
	return &bareTerminal{File: controlling, cmd: cmd, seen: make([]byte, 0, 128<<10)}, nil
}

// await reads until the output ends with the given text.
func (b *bareTerminal) await(text string) error {
	for b.seen = b.seen[:0]; !strings.HasSuffix(string(b.seen[max(0, len(b.seen)-len(text)):]), text); {
		if len(b.seen) > 64<<10 { // only the end of the output matters
			b.seen = append(b.seen[:0], b.seen[len(b.seen)-len(text):]...)
		}
		n, err := b.Read(b.seen[len(b.seen):][:64<<10])
		if err != nil {
			return fmt.Errorf("a bare terminal, before %q: %w", text, err)
		}
		b.seen = b.seen[:len(b.seen)+n]
	}
	return nil
}

// end kills the program and closes the terminal.
func (b *bareTerminal) end() {
	b.cmd.Process.Kill()
	b.cmd.Wait()
	b.Close()
}
