package mcp

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Answer is what a person said.
type Answer int

// The answers.
const (
	Nobody Answer = iota // there is none who could be asked
	Yes
	No // or no answer
)

// AskPerson asks whoever sits before the client of a call for their consent, where the client can (elicitation), and waits for the answer. In protocol 2026-07-28 a
// server does not ask in the middle of a call: there it is an error, that the call must return as it is, and the call is made again once there is an answer. It is an
// error too where ctx ends first.
func AskPerson(ctx context.Context, question string) (Answer, error) {
	p, _ := ctx.Value(personKey{}).(*person)
	if p == nil {
		return Nobody, nil
	}
	client := p.request.Session.InitializeParams()
	switch {
	case client == nil || client.Capabilities == nil || client.Capabilities.Elicitation == nil:
		return Nobody, nil
	case client.ProtocolVersion < statelessSince:
		return p.askNow(ctx, question)
	}
	answered, _ := p.request.Params.InputResponses[consentID].(*sdk.ElicitResult)
	if answered == nil || !p.questions.was(p.request.Params.RequestState, question) {
		return No, &unanswered{question}
	}
	return answerOf(answered), nil
}

// person is whom a call can ask.
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
	case err != nil: // it said that it could, and can't
		return Nobody, nil
	}
	return answerOf(r), nil
}

// consentTo is a question that is answered by consent, and by nothing more.
func consentTo(question string) *sdk.ElicitParams {
	return &sdk.ElicitParams{Message: question, RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}}
}

func answerOf(r *sdk.ElicitResult) Answer {
	if r.Action == "accept" {
		return Yes
	}
	return No
}

// consentID is what the answer is called when a call is made again.
const consentID = "consent"

// unanswered ends a call that is to be made again with the answer to a question.
type unanswered struct{ question string }

func (u *unanswered) Error() string { return "a person is to be asked first" }

// asking is the result of such a call.
func (u *unanswered) asking(q *questions) *sdk.CallToolResult {
	return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{consentID: consentTo(u.question)}, RequestState: q.note(u.question)}
}

// questions are those that clients were told to ask. An answer counts once, and only to the question that was asked.
type questions struct {
	mu   sync.Mutex
	open map[string]asked
}

type asked struct {
	question string
	at       time.Time
}

const (
	maxQuestions     = 1000
	questionPatience = 10 * time.Minute
)

// note remembers a question, and gives what it is known by.
func (q *questions) note(question string) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	oldest := ""
	for id, a := range q.open {
		switch {
		case now.Sub(a.at) > questionPatience:
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

// was tells whether a question is the one that is known by an id, and forgets it.
func (q *questions) was(id, question string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	a, known := q.open[id]
	delete(q.open, id)
	return known && a.question == question && time.Since(a.at) <= questionPatience
}
