package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/operations"
)

// Defaults of OllamaRequest.
const (
	DefaultBaseURL = "http://127.0.0.1:11434/v1" // Ollama on this host
	DefaultModel   = "llama3.2:3b"
	DefaultPrompt  = "Find out with vm_run which Linux distribution and version a machine of the environment debian:12 runs, " +
		"and calculate the sum of the squares of 1 to 100 with its python3. Then tell me both results in one sentence."
)

const instructions = "You have one tool, vm_run: it runs one shell command in a fresh, isolated Linux machine, which is then deleted. " +
	"Its argument environment is " + pyro.DefaultEnvironment + ". Call the tool to find the answer to the question. Use only results of the tool in your answer."

// Limits on a conversation.
const (
	maxRounds    = 8                // maximum number of answers from the model
	callTimeout  = 10 * time.Minute // maximum time per call. The first call might have to build a template.
	maxArguments = 64 << 10         // maximum size of the arguments of a call, in bytes
)

// OllamaRequest selects the model and the prompt. All fields are optional.
type OllamaRequest struct {
	BaseURL string           // URL of an OpenAI-compatible server; default DefaultBaseURL
	Model   string           // default DefaultModel
	Prompt  string           // default DefaultPrompt
	Key     pyro.SecretValue // sent only if BaseURL is set
	Verbose bool             // log messages completely

	Log      func(line string) // receives messages and calls; can be nil
	Progress pyro.ProgressFunc
}

// Summary is the result of a conversation.
type Summary struct {
	Model     string
	ExitCode  int            // exit code of the last command.
	Isolation pyro.Isolation // isolation of the last command.
	Rounds    int            // number of answers from the model.
	Commands  int            // number of commands that ran.
	Fallback  bool           // a call was parsed from text, because weak models write calls as text
	Answer    string
	Total     time.Duration
}

// Ollama lets a model use the tool vm_run through OpenAI's chat completions API until the model
// answers. All commands run in machines. If the conversation has started, the summary is set even
// if there is an error.
//
// The error is Unavailable if the server does not answer. It is NotFound if the server does not
// have the model, and Unsupported if the model does not use the tool.
func Ollama(ctx context.Context, p *pyro.Pyro, req OllamaRequest) (*Summary, error) {
	server, err := operations.NewServer(p, operations.ProfileVMRun, "")
	if err != nil {
		return nil, err
	}
	defer server.Close()
	tools, err := server.Tools()
	if err != nil {
		return nil, err
	}
	return converse(ctx, req, server, tools[0])
}

// caller calls tools. [operations.Server] implements it.
type caller interface {
	CallTool(ctx context.Context, name string, arguments json.RawMessage, report func(string)) (json.RawMessage, error)
}

// converse lets a model use a tool until the model answers.
func converse(ctx context.Context, req OllamaRequest, tools caller, tool operations.ToolInfo) (*Summary, error) {
	began := time.Now()
	if req.BaseURL == "" {
		req.BaseURL, req.Key = DefaultBaseURL, pyro.SecretValue{}
	}
	req.Model, req.Prompt = cmp.Or(req.Model, DefaultModel), cmp.Or(req.Prompt, DefaultPrompt)
	e, err := openEndpoint(req.BaseURL, req.Model, req.Key)
	if err != nil {
		return nil, err
	}
	defer e.close()
	c := &conversation{req: req, endpoint: e, tools: tools, tool: tool, summary: Summary{Model: req.Model}}
	err = c.hold(ctx)
	c.summary.Total = time.Since(began)
	return &c.summary, err
}

// conversation is the state of one call of Ollama.
type conversation struct {
	req      OllamaRequest
	endpoint *endpoint
	tools    caller
	tool     operations.ToolInfo
	said     []message
	failed   error // error of the last failed call
	summary  Summary
}

// hold continues the conversation until the model answers without a tool call.
func (c *conversation) hold(ctx context.Context) error {
	c.log("model", "%s at %s", c.req.Model, c.endpoint.base)
	c.log("prompt", "%s", c.req.Prompt)
	c.said = []message{{Role: "system", Content: instructions}, {Role: "user", Content: text(c.req.Prompt)}}
	for c.summary.Rounds < maxRounds {
		c.report("waiting for the model")
		m, err := c.endpoint.ask(ctx, c.said, []chatTool{newChatTool(c.tool)})
		if err != nil {
			return err
		}
		c.summary.Rounds++
		written, isCall := callIn(string(m.Content), c.tool.Name)
		switch {
		case len(m.ToolCalls) > 0:
			if err := c.answerCalls(ctx, m); err != nil {
				return err
			}
		case isCall:
			c.summary.Fallback = true
			c.log("fallback", "the model wrote its tool call as text; pyro runs it as a call")
			result, err := c.call(ctx, c.tool.Name, written)
			if err != nil {
				return err
			}
			c.said = append(c.said, m, message{Role: "user", Content: text("The result of " + c.tool.Name + " is: " + result + "\nNow answer in words.")})
		default:
			return c.end(string(m.Content))
		}
	}
	if err := c.fatalError(); err != nil {
		return err
	}
	return fault.New(fault.Exhausted, "ask for model", c.req.Model, "it called the tool %d times in a row and did not answer", c.summary.Rounds).
		WithHint("--model NAME of another model that can call tools")
}

// end processes the model's final answer. It returns an error if the model did not use the tool.
func (c *conversation) end(answer string) error {
	c.log("answer", "%s", answer)
	if err := c.fatalError(); err != nil {
		return err
	}
	if c.summary.Commands == 0 {
		return fault.New(fault.Unsupported, "ask for model", c.req.Model, "it answered without running a command with %s", c.tool.Name).
			WithHint("--model NAME of another model that can call tools, such as llama3.1:8b or qwen2.5:7b")
	}
	c.summary.Answer = c.clean(answer)
	return nil
}

// fatalError returns the error that prevented all commands. It returns nil if a command ran, or if
// the model caused the error by a mistake.
func (c *conversation) fatalError() error {
	if kind := fault.KindOf(c.failed); c.summary.Commands > 0 || kind == fault.Invalid || kind == fault.NotFound {
		return nil
	}
	return c.failed
}

// answerCalls runs the calls in a message and appends their results to the conversation.
func (c *conversation) answerCalls(ctx context.Context, m message) error {
	if len(m.ToolCalls) > maxCalls {
		return fault.New(fault.Exhausted, "ask for model", c.req.Model, "it requested %d calls at once: at most %d", len(m.ToolCalls), maxCalls)
	}
	for i := range m.ToolCalls {
		m.ToolCalls[i].Type = "function"
		if m.ToolCalls[i].ID == "" {
			m.ToolCalls[i].ID = fmt.Sprintf("call_%d_%d", c.summary.Rounds, i)
		}
	}
	c.said = append(c.said, m)
	for _, call := range m.ToolCalls {
		result, err := c.call(ctx, call.Function.Name, string(call.Function.Arguments))
		if err != nil {
			return err
		}
		c.said = append(c.said, message{Role: "tool", CallID: call.ID, Content: text(result)})
	}
	return nil
}

// call calls the tool and returns the text for the model. The text is the result or an error, so
// that the model can correct its call. call returns an error only if the conversation must end.
func (c *conversation) call(ctx context.Context, name, args string) (string, error) {
	c.log("call", "%s %s", name, args)
	result, err := c.run(ctx, name, args)
	if ctx.Err() != nil {
		return "", &fault.Error{Kind: fault.Canceled, Err: context.Cause(ctx)}
	}
	if err != nil {
		c.failed = err
		reply, _ := json.Marshal(map[string]string{"error": err.Error(), "kind": string(fault.KindOf(err)), "hint": fault.HintOf(err)})
		c.log("error", "%s", err)
		return string(reply), nil
	}
	var r pyro.RunResult
	if err := json.Unmarshal(result, &r); err != nil {
		return "", err
	}
	c.summary.Commands++
	c.summary.ExitCode, c.summary.Isolation = r.ExitCode, r.Isolation
	c.log("result", "exit_code=%d isolation=%s %.2fs: %s", r.ExitCode, r.Isolation, r.TotalMS/1000, r.Stdout+r.Stderr)
	return string(result), nil
}

// run runs a command for the model. The command must run in a machine, so the model is not allowed
// to set allow_host_compat.
func (c *conversation) run(ctx context.Context, name, args string) (json.RawMessage, error) {
	if len(args) > maxArguments {
		return nil, fault.New(fault.Invalid, name, "", "the arguments have %d bytes, more than %d", len(args), maxArguments)
	}
	var asked struct {
		AllowHostCompat bool `json:"allow_host_compat"`
	}
	if json.Unmarshal([]byte(args), &asked) == nil && asked.AllowHostCompat {
		return nil, fault.New(fault.Invalid, name, "", "allow_host_compat is not allowed here: leave it out")
	}
	if args == "" {
		args = "{}"
	}
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, fault.New(fault.Timeout, name, "", "it took more than %s", callTimeout))
	defer cancel()
	return c.tools.CallTool(ctx, name, json.RawMessage(args), c.report)
}

// report reports the current phase as progress.
func (c *conversation) report(phase string) {
	if c.req.Progress != nil {
		c.req.Progress(pyro.Progress{Phase: phase})
	}
}

// logged is the maximum size of a logged message, in bytes. It does not apply if Verbose is true.
const logged = 400

// log logs a message.
func (c *conversation) log(what, format string, args ...any) {
	if c.req.Log == nil {
		return
	}
	said := c.clean(fmt.Sprintf(format, args...))
	if !c.req.Verbose && len(said) > logged {
		said = strings.ToValidUTF8(said[:logged], "") + "…"
	}
	c.req.Log("[" + what + "] " + strings.ReplaceAll(said, "\n", "\n  "))
}

// clean makes output from a model or a machine safe to print.
func (c *conversation) clean(said string) string { return shown(said, c.req.Key) }
