package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/demo"
)

func newDemoOllama() *cobra.Command {
	var req demo.OllamaRequest
	cmd := &cobra.Command{
		Use:   "ollama",
		Short: "Let a model run commands in machines",
		Long: `Let a model run commands in new machines. The model gets the tool vm_run through the chat
completions API. The model runs on a local Ollama, or on the server that --base-url names. pyro
sends OPENAI_API_KEY only to that server and never prints it.

pyro logs the conversation. The last line is a summary, even after a failure: the exit code of
the last command, the number of requests, and whether the model wrote a call as text (fallback).
The exit code is 0 if the model ran a command and answered.`,
		Example: `  ollama pull llama3.2:3b && pyro demo ollama
  pyro demo ollama --model qwen2.5:7b --prompt "Which version of git does debian:12 have?"
  pyro demo ollama --base-url http://127.0.0.1:8080/v1 --model NAME`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if key := os.Getenv("OPENAI_API_KEY"); key != "" && cmd.Flags().Changed("base-url") {
				req.Key = pyro.NewSecretValue(key)
			}
			return ollama(cmd, req)
		},
	}
	f := cmd.Flags()
	f.StringVar(&req.BaseURL, "base-url", demo.DefaultBaseURL, "the server's `URL`, up to its /v1")
	f.StringVar(&req.Model, "model", demo.DefaultModel, "the `NAME` of the model")
	f.StringVar(&req.Prompt, "prompt", demo.DefaultPrompt, "`TEXT` of the prompt")
	f.BoolVarP(&req.Verbose, "verbose", "v", false, "log more of the conversation")
	return cmd
}

func ollama(cmd *cobra.Command, req demo.OllamaRequest) error {
	task, err := openTask(cmd.Context())
	if err != nil {
		return err
	}
	defer task.close()
	req.Progress = task.progress.report
	req.Log = func(line string) {
		task.progress.stop()
		fmt.Println(line)
	}
	s, err := demo.Ollama(task.ctx, task.pyro, req)
	task.progress.stop()
	if s != nil {
		if err := showConversation(s); err != nil {
			return err
		}
	}
	return task.signals.explain(err)
}

// showConversation prints the summary line of a conversation.
func showConversation(s *demo.Summary) error {
	exitCode, isolation, fallback := "none", "none", "no"
	if s.Commands > 0 {
		exitCode, isolation = fmt.Sprint(s.ExitCode), string(s.Isolation)
	}
	if s.Fallback {
		fallback = "yes"
	}
	_, err := fmt.Printf("[summary] exit_code=%s isolation=%s rounds=%d commands=%d fallback=%s model=%s total=%.2fs\n",
		exitCode, isolation, s.Rounds, s.Commands, fallback, s.Model, s.Total.Seconds())
	return err
}
