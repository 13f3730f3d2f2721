package mcp

import (
	"context"
	"errors"

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

type personKey struct{}

// withPerson has a call know its client.
func withPerson(ctx context.Context, s *sdk.ServerSession) context.Context {
	return context.WithValue(ctx, personKey{}, s)
}

// AskPerson asks whoever sits before the client of a call for their consent, where the client can (elicitation), and waits for the answer. It is an error only when
// ctx ends first.
func AskPerson(ctx context.Context, question string) (Answer, error) {
	s, _ := ctx.Value(personKey{}).(*sdk.ServerSession)
	if s == nil {
		return Nobody, nil
	}
	if p := s.InitializeParams(); p == nil || p.Capabilities == nil || p.Capabilities.Elicitation == nil {
		return Nobody, nil
	}
	r, err := s.Elicit(ctx, &sdk.ElicitParams{Message: question, RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}})
	switch {
	case ctx.Err() != nil:
		return No, context.Cause(ctx)
	case errors.Is(err, sdk.ErrConnectionClosed):
		return No, err
	case err != nil: // it said that it could, and can't
		return Nobody, nil
	case r.Action == "accept":
		return Yes, nil
	}
	return No, nil
}
