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
)

// What Ollama takes where a request says nothing.
const (
	DefaultBaseURL = "http://127.0.0.1:11434/v1" // of an Ollama on this host
	DefaultModel   = "llama3.2:3b"
	DefaultPrompt  = "Find out with vm_run which Linux distribution and version a machine of the environment debian:12 runs, " +
		"and what the sum of the squares of 1 to 100 is by its python3. Then tell me both in one sentence."
)

const instructions = "You have one tool, vm_run: it runs one shell command in a fresh, isolated Linux machine, which is then thrown away. " +
	"Its argument environment is " + pyro.DefaultEnvironment + ". Call the tool to find out what you are asked, and answer from what it gives you only."

// The bounds of a conversation.
const (
	maxRounds    = 8                // answers of the model
	callPatience = 10 * time.Minute // for one call of the tool, which may have to make ready what machines start from
	maxArguments = 64 << 10         // bytes, of one call
)

// OllamaRequest says what model to ask, and what. Nothing has to be set.
type OllamaRequest struct {
	BaseURL string           // of an OpenAI-compatible server; default DefaultBaseURL
	Model   string           // default DefaultModel
	Prompt  string           // default DefaultPrompt
	Key     pyro.SecretValue // for the server; it is not sent where BaseURL is not set
	Verbose bool             // log all of what is said

	Log      func(line string) // hears of what is said and done; nil: nobody does
	Progress pyro.ProgressFunc
}

// Summary tells what became of a conversation.
type Summary struct {
	Model     string
	ExitCode  int            // of the last command that the model ran
	Isolation pyro.Isolation // that it ran behind
	Rounds    int            // answers of the model
	Commands  int            // that it ran
	Fallback  bool           // it wrote a call as text, which was taken for one: models that can't call tools well do
	Answer    string
	Total     time.Duration
}

// Ollama has a model use vm_run, by the tool calls of OpenAI's chat completions, until it answers. What it runs, it runs in machines. There is a summary with an error
// too, if the conversation had begun. The error is of kind Unavailable
// where no server answers, NotFound where it does not have the model, and Unsupported for a model that does not use the tool.
func Ollama(ctx context.Context, p *pyro.Pyro, req OllamaRequest) (*Summary, error) {
	server, err := p.CreateServer(pyro.ProfileVMRun)
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

// caller is what calls tools: [pyro.MCPServer].
type caller interface {
	CallTool(ctx context.Context, name string, arguments json.RawMessage, report func(string)) (json.RawMessage, error)
}

// converse has a model use a tool until it answers.
func converse(ctx context.Context, req OllamaRequest, tools caller, tool pyro.MCPTool) (*Summary, error) {
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

// conversation is one call of Ollama.
type conversation struct {
	req      OllamaRequest
	endpoint *endpoint
	tools    caller
	tool     pyro.MCPTool
	said     []message
	failed   error // of the last call that failed
	summary  Summary
}

// hold goes on until the model answers without wanting the tool.
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
			c.log("fallback", "the model wrote its call as text; it is taken for one")
			result, err := c.call(ctx, c.tool.Name, written)
			if err != nil {
				return err
			}
			c.said = append(c.said, m, message{Role: "user", Content: text("The result of " + c.tool.Name + " is: " + result + "\nNow answer in words.")})
		default:
			return c.end(string(m.Content))
		}
	}
	if err := c.unable(); err != nil {
		return err
	}
	return fault.New(fault.Exhausted, "ask for model", c.req.Model, "it called the tool %d times in a row and did not answer", c.summary.Rounds).
		WithHint("--model NAME of another that can call tools")
}

// end takes the model's answer, which is worth nothing where it did not use the tool.
func (c *conversation) end(answer string) error {
	c.log("answer", "%s", answer)
	if err := c.unable(); err != nil {
		return err
	}
	if c.summary.Commands == 0 {
		return fault.New(fault.Unsupported, "ask for model", c.req.Model, "it answered without having run a command by %s", c.tool.Name).
			WithHint("--model NAME of another that can call tools, such as llama3.1:8b or qwen2.5:7b")
	}
	c.summary.Answer = c.clean(answer)
	return nil
}

// unable says why no command could be run, where that was not the model's mistake.
func (c *conversation) unable() error {
	if kind := fault.KindOf(c.failed); c.summary.Commands > 0 || kind == fault.Invalid || kind == fault.NotFound {
		return nil
	}
	return c.failed
}

// answerCalls makes the calls of a message, and has their results follow it.
func (c *conversation) answerCalls(ctx context.Context, m message) error {
	if len(m.ToolCalls) > maxCalls {
		return fault.New(fault.Exhausted, "ask for model", c.req.Model, "it wants %d calls at once, more than %d", len(m.ToolCalls), maxCalls)
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

// call calls the tool, and gives what the model is told of it: the result, or what was wrong, which it may do better. The error is for what ends the conversation.
func (c *conversation) call(ctx context.Context, name, args string) (string, error) {
	c.log("call", "%s %s", name, args)
	result, err := c.run(ctx, name, args)
	if ctx.Err() != nil {
		return "", &fault.Error{Kind: fault.Canceled, Err: context.Cause(ctx)}
	}
	if err != nil {
		c.failed = err
		told, _ := json.Marshal(map[string]string{"error": err.Error(), "kind": string(fault.KindOf(err)), "hint": fault.HintOf(err)})
		c.log("error", "%s", err)
		return string(told), nil
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

// run runs what the model asks for, in a machine: that it may be the host is nothing that a model can give leave for.
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
	ctx, cancel := context.WithTimeoutCause(ctx, callPatience, fault.New(fault.Timeout, name, "", "it took more than %s", callPatience))
	defer cancel()
	return c.tools.CallTool(ctx, name, json.RawMessage(args), c.report)
}

// report tells what takes long.
func (c *conversation) report(phase string) {
	if c.req.Progress != nil {
		c.req.Progress(pyro.Progress{Phase: phase})
	}
}

// logged is how much of what is said is logged, in bytes, where not all of it is to be.
const logged = 400

// log tells what is said and done, in one line for each of its own.
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

// clean is what a model or a machine said as it can be printed.
func (c *conversation) clean(said string) string { return shown(said, c.req.Key) }
