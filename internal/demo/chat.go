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
)

// The bounds of an answer.
const (
	maxAnswer      = 2 << 20         // bytes
	dialPatience   = 5 * time.Second // to be connected
	answerPatience = 5 * time.Minute // for all of it: a model that runs on a processor is slow, and has to be loaded first
	maxCalls       = 8               // of tools, in one answer
)

// endpoint is where a model is asked: what is below it is OpenAI's chat completions.
type endpoint struct {
	base   string // without a slash at its end
	model  string
	key    pyro.SecretValue
	client *http.Client
}

// openEndpoint checks a base URL. The endpoint MUST be closed.
func openEndpoint(base, model string, key pyro.SecretValue) (*endpoint, error) {
	u, err := url.Parse(base)
	wrong := func(what string) error {
		return fault.Newf(fault.Invalid, "the base URL %s", what).WithHint("--base-url %s", DefaultBaseURL)
	}
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, wrong("is none of http or https")
	case u.User != nil:
		return nil, wrong("holds a user or a password, which would be printed")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, wrong("has a query or a fragment")
	}
	for _, r := range key.Reveal() {
		if r <= ' ' || r > '~' {
			return nil, fault.Newf(fault.Invalid, "the API key holds a character that no key has").WithHint("set OPENAI_API_KEY anew, without line breaks")
		}
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dialPatience}).DialContext, TLSHandshakeTimeout: dialPatience,
		MaxResponseHeaderBytes: 64 << 10,
	}
	return &endpoint{strings.TrimRight(u.String(), "/"), model, key, &http.Client{
		Transport: transport,
		// Whoever is led elsewhere would tell them the conversation, and the key.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func (e *endpoint) close() { e.client.CloseIdleConnections() }

// message is one of a conversation.
type message struct {
	Role      string     `json:"role"`
	Content   text       `json:"content"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
	CallID    string     `json:"tool_call_id,omitempty"` // that it is the result of
}

// toolCall is a model's wish to have a tool called.
type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string    `json:"name"`
		Arguments arguments `json:"arguments"`
	} `json:"function"`
}

// text is what a message says: a string, null, or parts of which those of text count.
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

// arguments are JSON in a string. Some servers write them as they are.
type arguments string

func (a *arguments) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		*a = arguments(b)
		return nil
	}
	return json.Unmarshal(b, (*string)(a))
}

// chatTool is a tool as a model is told of it.
type chatTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

func newChatTool(t pyro.MCPTool) chatTool {
	c := chatTool{Type: "function"}
	c.Function.Name, c.Function.Description, c.Function.Parameters = t.Name, t.Description, t.InputSchema
	return c
}

// ask sends a conversation, and gives what the model says to it.
func (e *endpoint) ask(ctx context.Context, said []message, tools []chatTool) (message, error) {
	body, err := json.Marshal(map[string]any{"model": e.model, "messages": said, "tools": tools, "stream": false})
	if err != nil {
		return message{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerPatience, fault.Newf(fault.Timeout, "the model has not answered within %s", answerPatience))
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
		return message{}, e.fault(fault.Unavailable, "that is no chat completion: %s", e.hide(err.Error())).WithHint("--base-url URL of an OpenAI-compatible server, with its /v1")
	}
	return m, nil
}

// readAnswer reads the message of a chat completion.
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

// unanswered says why there is no answer.
func (e *endpoint) unanswered(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		if fault.KindOf(cause) == fault.Timeout {
			return fault.Wrap(cause, "ask", e.base)
		}
		return &fault.Error{Kind: fault.Canceled, Err: cause}
	}
	var asked *url.Error // which repeats the URL
	if errors.As(err, &asked) {
		err = asked.Err
	}
	return e.fault(fault.Unavailable, "no model server answers: %s", e.hide(err.Error())).
		WithHint("ollama serve, and ollama pull %s; or --base-url URL of another OpenAI-compatible server", e.model)
}

// refused says what a status other than 200 means.
func (e *endpoint) refused(resp *http.Response, body []byte) error {
	said := e.hide(errorText(body))
	switch status := resp.StatusCode; {
	case status >= 300 && status < 400:
		return e.fault(fault.Unavailable, "it leads elsewhere (%s), which is not followed", resp.Status).WithHint("--base-url URL of the server itself")
	case status == http.StatusNotFound && strings.Contains(said, "model"):
		return fault.New(fault.NotFound, "ask for model", e.model, "%s", said).WithHint("ollama pull %s, or --model NAME", e.model)
	case status == http.StatusNotFound:
		return e.fault(fault.NotFound, "it serves no chat completions: %s", said).WithHint("--base-url URL with the /v1 at its end, and --model NAME of one that it has")
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return e.fault(fault.Permission, "%s: %s", resp.Status, said).WithHint("set OPENAI_API_KEY, which is sent to a --base-url that is given")
	case status == http.StatusTooManyRequests:
		return e.fault(fault.Exhausted, "%s: %s", resp.Status, said)
	case status == http.StatusBadRequest && strings.Contains(said, "does not support tools"):
		return fault.New(fault.Unsupported, "ask for model", e.model, "%s", said).WithHint("--model %s, or another that can call tools", DefaultModel)
	}
	return e.fault(fault.Unavailable, "%s: %s", resp.Status, said)
}

// errorText is what an error's body says: the message of OpenAI's form, or its beginning.
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
			json.Unmarshal(e.Error, &inner.Message) // some say no more than a string
		}
		if inner.Message != "" {
			said = inner.Message
		}
	}
	return said
}

// hide makes what a server said fit to be printed: one short line, without the key.
func (e *endpoint) hide(said string) string {
	said = strings.Join(strings.Fields(shown(said, e.key)), " ")
	if len(said) > 300 {
		said = strings.ToValidUTF8(said[:300], "") + "…"
	}
	return said
}
