package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// echoing is a program that prints nothing more after "ready". Its terminal echoes the input.
const echoing = "echo ready; exec cat >/dev/null"

// echoed measures the time from typing a line to its echo, with and without the server. It also
// measures the time of an empty call.
func (t *terminals) echoed() error {
	s, err := t.server("PTY_MCP_ENABLE_ADMIN_TOOLS=1")
	if err != nil {
		return err
	}
	defer s.Close()
	id, err := s.spawn(echoing)
	if err == nil {
		_, err = s.until(id, "ready\r\n")
	}
	if err != nil {
		return err
	}
	direct, err := t.bare(echoing)
	if err != nil {
		return err
	}
	defer direct.end()
	if err := direct.await("ready\r\n"); err != nil {
		return err
	}
	plain, err := t.pipes(t.cat())
	if err != nil {
		return err
	}
	raw, err := t.pipes(t.rawServer())
	if err != nil {
		return errors.Join(err, plain.end())
	}
	defer func() { errors.Join(raw.end(), plain.end()) }()
	if err := raw.initialize(); err != nil {
		return err
	}
	lines := 0
	line := func() string { lines++; return fmt.Sprintf("line %d", lines) }
	r, err := t.times(max(t.n, 10)*20, func() error {
		l := line()
		if _, err := io.WriteString(direct, l+"\n"); err != nil {
			return err
		}
		return direct.await(l + "\r\n")
	}, func() error {
		l := line()
		if err := raw.call("pty_write", arguments{"session_id": id, "owner": owner, "data": l + "\n"}, `"ok"`); err != nil {
			return err
		}
		return raw.call("pty_read_until", arguments{"session_id": id, "owner": owner, "pattern": l + "\r\n"}, `"matched":true`)
	}, func() error {
		l := line()
		return raw.call("pty_prompt", arguments{"session_id": id, "owner": owner, "data": l + "\n", "patterns": []string{l + "\r\n"}}, `"matched":true`)
	}, func() error {
		l := line()
		if err := s.write(id, l+"\n"); err != nil {
			return err
		}
		_, err := s.until(id, l+"\r\n")
		return err
	}, func() error {
		return plain.answered(`{"jsonrpc":"2.0","id":2,"method":"tools/call"}`, `"id":2`)
	}, func() error {
		return raw.answered(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_limits","arguments":{}}}`, `"id":2`)
	}, func() error {
		_, _, err := s.call("get_limits", nil)
		return err
	})
	if err != nil {
		return err
	}
	t.figures = append(t.figures,
		figure("pty: a line up to its echo, pty_write and pty_read_until; floor: a bare PTY", "ms", r[1]).over(r[0], 1),
		figure("pty: a line up to its echo, pty_prompt; floor: a bare PTY", "ms", r[2]).over(r[0], 1),
		figure("pty: the two calls by the client of the Go SDK; floor: without it", "ms", r[3]).beside(r[1]),
		figure("pty: a call that does nothing; floor: its text through the pipes of cat", "ms", r[5]).beside(r[4]),
		figure("pty: the same by the client of the Go SDK; floor: without it", "ms", r[6]).beside(r[5]))
	return s.close(id)
}

// piped is a process that answers lines over standard input and output.
type piped struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func (t *terminals) cat() *exec.Cmd { return exec.CommandContext(t.ctx, "cat") }

// rawServer returns the command of a server for use without an SDK.
func (t *terminals) rawServer() *exec.Cmd {
	cmd := exec.CommandContext(t.ctx, "bin/pty-mcp")
	cmd.Env, cmd.Stderr = t.environment("PTY_MCP_ENABLE_ADMIN_TOOLS=1"), os.Stderr
	return cmd
}

func (t *terminals) pipes(cmd *exec.Cmd) (*piped, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &piped{cmd, in, bufio.NewReader(out)}, cmd.Start()
}

func (p *piped) initialize() error {
	if err := p.answered(strings.TrimSuffix(initialize, "\n"), `"serverInfo"`); err != nil {
		return err
	}
	_, err := io.WriteString(p.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	return err
}

// call calls a tool and checks that the result contains the given text.
func (p *piped) call(tool string, a arguments, with string) error {
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": a}})
	if err != nil {
		return err
	}
	return p.answered(string(text), with)
}

// answered sends a line and checks that the next line contains the given text.
func (p *piped) answered(line, with string) error {
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		return err
	}
	answer, err := p.out.ReadString('\n')
	if err != nil || !strings.Contains(answer, with) {
		return fmt.Errorf("it answered %q: %w", answer, err)
	}
	return nil
}

func (p *piped) end() error {
	p.in.Close()
	return p.cmd.Wait()
}
