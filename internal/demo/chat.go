package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/operations"
)

// Limits on an answer of the model.
const (
	maxAnswer     = 2 << 20         // bytes
	dialTimeout   = 5 * time.Second // time for connecting
	answerTimeout = 5 * time.Minute // time for the whole answer. A model on a CPU is slow and must be loaded first.
	maxCalls      = 8               // tool calls in one answer
)

// endpoint is a server that has OpenAI's chat completions API.
type endpoint struct {
	base   string // without a trailing slash
	model  string
	key    pyro.SecretValue
	client *http.Client
}

// openEndpoint validates a base URL and returns its endpoint. The caller must close the endpoint.
func openEndpoint(base, model string, key pyro.SecretValue) (*endpoint, error) {
	u, err := url.Parse(base)
	wrong := func(what string) error {
		return fault.Newf(fault.Invalid, "the base URL %s", what).WithHint("--base-url %s", DefaultBaseURL)
	}
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, wrong("must begin with http:// or https://")
	case u.User != nil:
		return nil, wrong("contains a user or a password, which would be printed")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, wrong("has a query or a fragment")
	}
	for _, r := range key.Reveal() {
		if r <= ' ' || r > '~' {
			return nil, fault.Newf(fault.Invalid, "the API key contains an invalid character").WithHint("set OPENAI_API_KEY without line breaks")
		}
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, TLSHandshakeTimeout: dialTimeout,
		MaxResponseHeaderBytes: 64 << 10,
	}
	return &endpoint{strings.TrimRight(u.String(), "/"), model, key, &http.Client{
		Transport: transport,
		// If the client followed redirects, it could send the conversation and the key to another
		// server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func (e *endpoint) close() { e.client.CloseIdleConnections() }

// message is a message of a conversation.
type message struct {
	Role      string     `json:"role"`
	Content   text       `json:"content"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
	CallID    string     `json:"tool_call_id,omitempty"` // the ID of the call whose result this message contains
}

// toolCall is a request by the model to call a tool.
type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string    `json:"name"`
		Arguments arguments `json:"arguments"`
	} `json:"function"`
}

// text is the content of a message. In JSON it is a string, null, or a list of parts. Only text
// parts are used.
type text string

func (t *text) UnmarshalJSON(b []byte) error {
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(b, &parts); err == nil {
		for _, p := range parts {
			*t += text(p.Text)
		}
		return nil
	}
	return json.Unmarshal(b, (*string)(t))
}

// arguments is JSON that is encoded as a string. Some servers send an object instead.
type arguments string

func (a *arguments) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		*a = arguments(b)
		return nil
	}
	return json.Unmarshal(b, (*string)(a))
}

// chatTool describes a tool to the model.
type chatTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

func newChatTool(t operations.ToolInfo) chatTool {
	c := chatTool{Type: "function"}
	c.Function.Name, c.Function.Description, c.Function.Parameters = t.Name, t.Description, t.InputSchema
	return c
}

// ask sends the conversation and returns the model's next message.
func (e *endpoint) ask(ctx context.Context, said []message, tools []chatTool) (message, error) {
	body, err := json.Marshal(map[string]any{"model": e.model, "messages": said, "tools": tools, "stream": false})
	if err != nil {
		return message{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, fault.Newf(fault.Timeout, "the model has not answered within %s", answerTimeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.base+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return message{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	if !e.key.IsZero() {
		req.Header.Set("Authorization", "Bearer "+e.key.Reveal())
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return message{}, e.unanswered(ctx, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return message{}, e.unanswered(ctx, err)
	case resp.StatusCode != http.StatusOK:
		return message{}, e.refused(resp, answer)
	case len(answer) > maxAnswer:
		return message{}, e.fault(fault.Exhausted, "the answer has more than %d bytes", maxAnswer)
	}
	m, err := readAnswer(answer)
	if err != nil {
		return message{}, e.fault(fault.Unavailable, "not a chat completion: %s", e.hide(err.Error())).WithHint("--base-url URL of an OpenAI-compatible server, with its /v1")
	}
	return m, nil
}

// readAnswer parses a chat completion.
func readAnswer(b []byte) (message, error) {
	var completion struct {
		Choices []struct {
			Message *message `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(b, &completion); err != nil {
		return message{}, err
	}
	if len(completion.Choices) == 0 || completion.Choices[0].Message == nil {
		return message{}, errors.New("it has no message")
	}
	m := *completion.Choices[0].Message
	m.Role, m.CallID = "assistant", ""
	return m, nil
}

func (e *endpoint) fault(kind fault.Kind, format string, args ...any) *fault.Error {
	return fault.New(kind, "ask", e.base, format, args...)
}

// unanswered returns the error for a request that got no response.
func (e *endpoint) unanswered(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		if fault.KindOf(cause) == fault.Timeout {
			return fault.Wrap(cause, "ask", e.base)
		}
		return &fault.Error{Kind: fault.Canceled, Err: cause}
	}
	var asked *url.Error // the message of a url.Error repeats the URL
	if errors.As(err, &asked) {
		err = asked.Err
	}
	return e.fault(fault.Unavailable, "no model server answers: %s", e.hide(err.Error())).
		WithHint("ollama serve, and ollama pull %s; or --base-url URL of another OpenAI-compatible server", e.model)
}

// refused returns the error for a response with a status other than 200.
func (e *endpoint) refused(resp *http.Response, body []byte) error {
	said := e.hide(errorText(body))
	switch status := resp.StatusCode; {
	case status >= 300 && status < 400:
		return e.fault(fault.Unavailable, "the server redirects (%s), which is not followed", resp.Status).WithHint("--base-url URL of the server itself")
	case status == http.StatusNotFound && strings.Contains(said, "model"):
		return fault.New(fault.NotFound, "ask for model", e.model, "%s", said).WithHint("ollama pull %s, or --model NAME", e.model)
	case status == http.StatusNotFound:
		return e.fault(fault.NotFound, "it serves no chat completions: %s", said).WithHint("--base-url URL with /v1 at its end, and --model NAME of a model that it serves")
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return e.fault(fault.Permission, "%s: %s", resp.Status, said).WithHint("set OPENAI_API_KEY, which pyro sends to the server in --base-url")
	case status == http.StatusTooManyRequests:
		return e.fault(fault.Exhausted, "%s: %s", resp.Status, said)
	case status == http.StatusBadRequest && strings.Contains(said, "does not support tools"):
		return fault.New(fault.Unsupported, "ask for model", e.model, "%s", said).WithHint("--model %s, or another model that can call tools", DefaultModel)
	}
	return e.fault(fault.Unavailable, "%s: %s", resp.Status, said)
}

// errorText returns the error message in a response. It returns the error field of OpenAI's API, or
// the whole body if the field is missing.
func errorText(body []byte) string {
	var e struct {
		Error json.RawMessage `json:"error"`
	}
	said := string(body)
	if json.Unmarshal(body, &e) == nil && len(e.Error) > 0 {
		var inner struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(e.Error, &inner) != nil || inner.Message == "" {
			json.Unmarshal(e.Error, &inner.Message) // some servers send only a string
		}
		if inner.Message != "" {
			said = inner.Message
		}
	}
	return said
}

// hide returns a server's message as one short line that is safe to print. It redacts the key.
func (e *endpoint) hide(said string) string {
	said = strings.Join(strings.Fields(shown(said, e.key)), " ")
	if len(said) > 300 {
		said = strings.ToValidUTF8(said[:300], "") + "…"
	}
	return said
}
