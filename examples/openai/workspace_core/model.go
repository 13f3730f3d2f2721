package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
)

// maxAnswer is the maximum size of an answer, in bytes.
const maxAnswer = 16 << 20

// model is a model at a Responses API endpoint.
type model struct {
	url, name, key string
	http           http.Client
}

func modelOfEnvironment() (*model, error) {
	m := &model{name: os.Getenv("OPENAI_MODEL"), key: os.Getenv("OPENAI_API_KEY")}
	if m.name == "" || m.key == "" {
		return nil, errors.New("set OPENAI_API_KEY and OPENAI_MODEL")
	}
	m.url = strings.TrimRight(cmp.Or(os.Getenv("OPENAI_BASE_URL"), "https://api.openai.com/v1"), "/") + "/responses"
	m.http.Timeout = 5 * time.Minute
	// A redirect would send the key to another server, so the client does not follow redirects.
	m.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return m, nil
}

func withoutKey(environment []string) []string {
	return slices.DeleteFunc(environment, func(v string) bool { return strings.HasPrefix(v, "OPENAI_API_KEY=") })
}

// item contains the parts of an output item that this program uses.
type item struct {
	Type      string
	Name      string // name of the called function, in a function_call
	CallID    string `json:"call_id"`
	Arguments string // JSON text
	Content   []struct{ Text, Refusal string }
}

// text returns the text of a message, or the model's reason for a refusal.
func (i item) text() string {
	var text strings.Builder
	if i.Type == "message" {
		for _, part := range i.Content {
			text.WriteString(part.Text + part.Refusal)
		}
	}
	return text.String()
}

// respond sends the conversation and returns the model's output items.
func (m *model) respond(ctx context.Context, conversation []any, tools []function) ([]json.RawMessage, error) {
	body, err := json.Marshal(map[string]any{"model": m.name, "input": conversation, "tools": tools})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+m.key)
	request.Header.Set("Content-Type", "application/json")
	answer, err := m.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	var response struct {
		Status            string
		Output            []json.RawMessage
		Error             *struct{ Message string }
		IncompleteDetails *struct{ Reason string } `json:"incomplete_details"`
	}
	err = json.Unmarshal(text, &response)
	said := ""
	switch {
	case response.Error != nil:
		said = response.Error.Message
	case response.IncompleteDetails != nil:
		said = response.IncompleteDetails.Reason
	case err != nil:
		said = fmt.Sprintf("%.1000s", text)
	}
	said = strings.ReplaceAll(said, m.key, "[OPENAI_API_KEY]") // some servers repeat the key
	switch {
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s answers %s: %s", m.url, answer.Status, said)
	case err != nil || response.Output == nil:
		return nil, fmt.Errorf("%s: the answer is not a response: %q", m.url, said)
	case response.Status != "completed":
		return nil, fmt.Errorf("%s: the response is %s: %s", m.url, response.Status, said)
	}
	return response.Output, nil
}
