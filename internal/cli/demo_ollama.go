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
		Short: "Have a model run commands in machines by calling vm_run",
		Long: `Give a model the tool vm_run of pyro's MCP server, by the tool calls of OpenAI's chat completions,
and have it find something out by running commands in fresh machines. The model is one of a local
Ollama, or of any other OpenAI-compatible server with --base-url. OPENAI_API_KEY is sent to a server
only that --base-url names, and is never printed.

What is said and done is logged line by line, and the last line sums it up, if it fails too: the exit code of the
last command that the model ran, how often the model was asked, and whether it wrote a call as
text, which is taken for one (fallback). The exit code is 0 when the model has run a command
and answered.`,
		Example: `  ollama pull llama3.2:3b && pyro demo ollama
  pyro demo ollama --model qwen2.5:7b --prompt "Which version of git has debian:12?"
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
	f.StringVar(&req.Prompt, "prompt", demo.DefaultPrompt, "what to ask, a `TEXT`")
	f.BoolVarP(&req.Verbose, "verbose", "v", false, "log more of what is said")
	return cmd
}

func ollama(cmd *cobra.Command, req demo.OllamaRequest) error {
	p, err := pyro.New(pyro.Options{})
	if err != nil {
		return err
	}
	defer p.Close()
	ctx, signals := endOnSignals(cmd.Context())
	defer signals.stop()
	progress := newProgress(false)
	defer progress.stop()
	req.Progress = progress.report
	req.Log = func(line string) {
		progress.stop()
		fmt.Println(line)
	}
	s, err := demo.Ollama(ctx, p, req)
	progress.stop()
	if s != nil {
		if err := showConversation(s); err != nil {
			return err
		}
	}
	return signals.explain(err)
}

// showConversation prints the last line, which sums up the conversation.
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
