package mcp

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Answer is the user's answer to a question.
type Answer int

// The possible answers.
const (
	NotAsked Answer = iota // the client can't ask its user
	Yes
	No // or the user gave no answer
)

// AskPerson asks the client's user for consent through elicitation, and waits for the answer. In
// protocol version 2026-07-28 and later, servers can't ask during a call. In this case AskPerson
// returns an error, and the call must return the same error. The client then asks its user and
// repeats the call. AskPerson also returns an error when ctx is done.
func AskPerson(ctx context.Context, question string) (Answer, error) {
	p, _ := ctx.Value(personKey{}).(*person)
	if p == nil {
		return NotAsked, nil
	}
	client := p.request.Session.InitializeParams()
	switch {
	case client == nil || client.Capabilities == nil || client.Capabilities.Elicitation == nil:
		return NotAsked, nil
	case client.ProtocolVersion < statelessSince:
		return p.askNow(ctx, question)
	}
	answered, _ := p.request.Params.InputResponses[consentID].(*sdk.ElicitResult)
	if answered == nil || !p.questions.was(p.request.Params.RequestState, question) {
		return No, &unanswered{question}
	}
	return answerOf(answered), nil
}

// person contains the data that is needed to ask the user of a call.
type person struct {
	request   *sdk.CallToolRequest
	questions *questions
}

type personKey struct{}

func (p *person) askNow(ctx context.Context, question string) (Answer, error) {
	r, err := p.request.Session.Elicit(ctx, consentTo(question))
	switch {
	case ctx.Err() != nil:
		return No, context.Cause(ctx)
	case errors.Is(err, sdk.ErrConnectionClosed):
		return No, err
	case err != nil: // the client announced elicitation but does not support it
		return NotAsked, nil
	}
	return answerOf(r), nil
}

// consentTo returns an elicitation request without fields: the user can only accept or decline.
func consentTo(question string) *sdk.ElicitParams {
	return &sdk.ElicitParams{Message: question, RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}}
}

func answerOf(r *sdk.ElicitResult) Answer {
	if r.Action == "accept" {
		return Yes
	}
	return No
}

// consentID is the key of the answer in the repeated call.
const consentID = "consent"

// unanswered is an error that makes the client ask its user, then repeat the call with the answer.
type unanswered struct{ question string }

func (u *unanswered) Error() string { return "the user must be asked first" }

// asking returns the result that makes the client ask its user.
func (u *unanswered) asking(q *questions) *sdk.CallToolResult {
	return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{consentID: consentTo(u.question)}, RequestState: q.note(u.question)}
}

// questions stores the questions that clients must ask their users. An answer is valid only once,
// and only for its own question.
type questions struct {
	mu   sync.Mutex
	open map[string]asked
}

type asked struct {
	question string
	at       time.Time
}

const (
	maxQuestions    = 1000
	questionTimeout = 10 * time.Minute
)

// note stores a question and returns an id for it.
func (q *questions) note(question string) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	oldest := ""
	for id, a := range q.open {
		switch {
		case now.Sub(a.at) > questionTimeout:
			delete(q.open, id)
		case oldest == "" || a.at.Before(q.open[oldest].at):
			oldest = id
		}
	}
	if len(q.open) >= maxQuestions {
		delete(q.open, oldest)
	}
	if q.open == nil {
		q.open = map[string]asked{}
	}
	id := rand.Text()
	q.open[id] = asked{question, now}
	return id
}

// was reports whether id belongs to the question and is still valid. It removes id.
func (q *questions) was(id, question string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	a, known := q.open[id]
	delete(q.open, id)
	return known && a.question == question && time.Since(a.at) <= questionTimeout
}
