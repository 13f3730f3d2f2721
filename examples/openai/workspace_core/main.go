// Command workspace_core lets a model of the OpenAI Responses API work in workspaces: it gives the model the tools of `pyro mcp serve --profile workspace-core`,
// and does what the model calls for, until it answers.
//
// It takes OPENAI_API_KEY and OPENAI_MODEL from the environment, and OPENAI_BASE_URL where it is not OpenAI's; what the model is to do from the command line.
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

// rounds is how often the model answers at most.
const rounds = 30

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: workspace_core 'what the model is to do'")
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
	// The server gets all of the environment but the key, which is no business of its.
	server := exec.Command(cmp.Or(os.Getenv("PYRO_PROGRAM"), "pyro"), "mcp", "serve", "--profile", "workspace-core")
	server.Env, server.Stderr = withoutKey(os.Environ()), os.Stderr
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this program, which has to tidy with it
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
			conversation = append(conversation, raw) // as it is: the model's reasoning belongs to its calls
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
