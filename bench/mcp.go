package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/operations"
)

// mcp measures MCP servers.
func (b *bench) mcp() error {
	return b.onWorkspaces(func(w *workspaces) []step {
		return []step{{"mcp: tools", w.toolsListed}, {"mcp: server", w.served}, {"mcp: calls", w.called}, {"mcp: many calls", w.calledTogether}}
	})
}

// serve returns the command that starts an MCP server.
func (w *workspaces) serve(profile operations.Profile) *exec.Cmd {
	cmd := exec.CommandContext(w.ctx, "bin/pyro", "mcp", "serve", "--profile", string(profile))
	cmd.Env = append(os.Environ(), "PYRO_STATE_DIR="+w.state)
	cmd.Stderr = os.Stderr
	return cmd
}

// agent starts an MCP server and connects a client to it.
func (w *workspaces) agent(profile operations.Profile) (*sdk.ClientSession, error) {
	return sdk.NewClient(&sdk.Implementation{Name: "bench"}, nil).Connect(w.ctx, &sdk.CommandTransport{Command: w.serve(profile)}, nil)
}

// toolsListed measures the size of the list of tools.
func (w *workspaces) toolsListed() error {
	for profile, most := range map[operations.Profile]float64{operations.ProfileWorkspaceCore: 14_000, operations.ProfileWorkspaceFull: 40_000} {
		c, err := w.agent(profile)
		if err != nil {
			return err
		}
		listed, err := c.ListTools(w.ctx, nil)
		if err != nil {
			return err
		}
		text, err := json.Marshal(listed)
		if err := errors.Join(err, c.Close()); err != nil {
			return err
		}
		w.figures = append(w.figures, figure("mcp: tools/list of "+string(profile), "bytes", []float64{float64(len(text))}).atMost(most))
	}
	return nil
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}` + "\n"

// served measures the time from the start of a server to its first answer. It also measures the
// server's memory.
func (w *workspaces) served() error {
	var took, memory []float64
	for i := range max(w.n, 10) + 1 {
		cmd := w.serve(operations.ProfileWorkspaceFull)
		in, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		began := time.Now()
		if err := cmd.Start(); err != nil {
			return err
		}
		io.WriteString(in, initialize)
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || !strings.Contains(line, `"serverInfo"`) {
			return fmt.Errorf("it answered %q: %w", line, err)
		}
		if i > 0 { // the first round is a warm-up
			took = append(took, float64(time.Since(began).Microseconds())/1000)
			mib, err := kilobytes(cmd.Process.Pid, "status", "VmRSS")
			if err != nil {
				return err
			}
			memory = append(memory, mib)
		}
		in.Close()
		if err := cmd.Wait(); err != nil {
			return err
		}
	}
	w.figures = append(w.figures, figure("mcp: start of a server up to its first answer", "ms", took).atMost(60), figure("mcp: memory of an idle server", "MiB", memory).atMost(30))
	return nil
}

// execTool calls the tool workspace_exec.
func (w *workspaces) execTool(c *sdk.ClientSession, id, command string) (stdout string, err error) {
	r, err := c.CallTool(w.ctx, &sdk.CallToolParams{Name: "workspace_exec", Arguments: map[string]any{"workspace_id": id, "command": command}})
	if err != nil {
		return "", err
	}
	result, ok := r.StructuredContent.(map[string]any)
	if !ok || r.IsError {
		return "", fmt.Errorf("workspace_exec: %+v", r.Content)
	}
	return result["stdout"].(string), nil
}

// called measures the overhead of a tool call compared with a call of the SDK.
func (w *workspaces) called() error {
	c, err := w.agent(operations.ProfileWorkspaceCore)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, k := range w.kinds {
		id, err := w.create(k, "")
		if err != nil {
			return err
		}
		tool := func() error {
			_, err := w.execTool(c, id, "true")
			return err
		}
		direct := func() error {
			_, err := w.sdk.ExecWorkspace(w.ctx, pyro.ExecWorkspaceRequest{WorkspaceID: id, Command: "true"})
			return err
		}
		var floor, took []float64
		for range max(w.n, 10) * 5 { // each kind of call follows itself and the other kind equally often, because a call leaves work behind
			four, err := w.times(1, tool, direct, direct, tool)
			if err != nil {
				return err
			}
			took, floor = append(took, four[0][0], four[3][0]), append(floor, four[1][0], four[2][0])
		}
		f := figure(fmt.Sprintf("%s: workspace_exec over MCP; floor: the SDK's call", k.isolation), "ms", took)
		f.Floor = quantile(floor, 0.5)
		// Only the fastest quarter is used, because other load on the host would hide the
		// difference.
		w.figures = append(w.figures, f.judge(quantile(took, 0.25)-quantile(floor, 0.25), "ms over the floor, of the fast ones", 2, true))
		if err := w.delete(id); err != nil {
			return err
		}
	}
	return nil
}

// calledTogether makes 50 concurrent calls on 5 workspaces. Each call must get its own answer.
func (w *workspaces) calledTogether() error {
	c, err := w.agent(operations.ProfileWorkspaceCore)
	if err != nil {
		return err
	}
	defer c.Close()
	k := w.kinds[len(w.kinds)-1]
	var ids []string
	for range 5 {
		id, err := w.create(k, "")
		if err != nil {
			return err
		}
		if _, err := w.sdk.WriteWorkspaceFile(w.ctx, pyro.WriteWorkspaceFileRequest{WorkspaceID: id, Path: "id", Text: id}); err != nil {
			return err
		}
		ids = append(ids, id)
	}
	var took []float64
	for range max(w.n/2, 3) {
		began, ended := time.Now(), make(chan error, 50)
		for i := range 50 {
			go func() {
				got, err := w.execTool(c, ids[i%5], fmt.Sprintf("cat id; echo -n ' %d'", i))
				if want := fmt.Sprint(ids[i%5], " ", i); err == nil && got != want {
					err = fmt.Errorf("%q instead of %q", got, want)
				}
				ended <- err
			}()
		}
		for range 50 {
			err = errors.Join(err, <-ended)
		}
		if err != nil {
			return err
		}
		took = append(took, float64(time.Since(began).Microseconds())/1000)
	}
	w.figures = append(w.figures, figure(fmt.Sprintf("%s: 50 calls at once on 5 workspaces, all answered right", k.isolation), "ms", took))
	for _, id := range ids {
		if err := w.delete(id); err != nil {
			return err
		}
	}
	return context.Cause(w.ctx)
}
