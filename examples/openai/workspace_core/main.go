// Command workspace_core lets a model work in workspaces through the OpenAI Responses API. It gives
// the model the tools of `pyro mcp serve --profile workspace-core`. It runs the model's calls until
// the model answers.
//
// The command reads OPENAI_API_KEY, OPENAI_MODEL and optionally OPENAI_BASE_URL from the
// environment. It reads the task from the command line.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// rounds is the maximum number of answers from the model.
const rounds = 30

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: workspace_core 'task for the model'")
		os.Exit(2)
	}
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "workspace_core:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, task string) (err error) {
	model, err := modelOfEnvironment()
	if err != nil {
		return err
	}
	// The server's environment must not contain the key.
	server := exec.Command(cmp.Or(os.Getenv("PYRO_PROGRAM"), "pyro"), "mcp", "serve", "--profile", "workspace-core")
	server.Env, server.Stderr = withoutKey(os.Environ()), os.Stderr
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C must reach only this program, because it needs the server to clean up
	session, err := mcp.NewClient(&mcp.Implementation{Name: "workspace_core", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: server}, nil)
	if err != nil {
		return fmt.Errorf("start %s: %w", server, err)
	}
	defer session.Close()
	tools := toolbox{session: session, workspaces: map[string]bool{}}
	defer func() { err = errors.Join(err, tools.tidy(context.WithoutCancel(ctx))) }()
	functions, err := tools.functions(ctx)
	if err != nil {
		return err
	}

	conversation := []any{map[string]string{"role": "user", "content": task}}
	for range rounds {
		output, err := model.respond(ctx, conversation, functions)
		if err != nil {
			return err
		}
		answer, calls := "", 0
		for _, raw := range output {
			conversation = append(conversation, raw) // unchanged, because the model's reasoning belongs to its calls
			var item item
			if err := json.Unmarshal(raw, &item); err != nil {
				return err
			}
			answer += item.text()
			if item.Type != "function_call" {
				continue
			}
			calls++
			result, err := tools.call(ctx, item.Name, item.Arguments)
			if err != nil {
				return err
			}
			conversation = append(conversation, map[string]string{"type": "function_call_output", "call_id": item.CallID, "output": result})
		}
		if calls == 0 {
			fmt.Println(answer)
			return nil
		}
	}
	return fmt.Errorf("no answer after %d rounds", rounds)
}
