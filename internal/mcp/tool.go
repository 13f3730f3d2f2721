// Package mcp serves operations to agents over the Model Context Protocol: as tools, whose arguments are checked and whose results are structured.
//
// It has no logic of what a tool does. The protocol is the official Go SDK's.
package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime/debug"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Kind is what a tool does to the world, for clients that ask before some.
type Kind int

// The kinds. A tool destroys if files, processes or records that were there may be lost or replaced by it. Its world is open if it runs commands or fetches images.
const (
	Reads    Kind = iota // changes nothing
	Adds                 // keeps what was there; again: adds again, or fails
	Fetches              // as Adds, in an open world
	Sets                 // keeps what was there; again: changes nothing more
	Replaces             // destroys; again: changes nothing more
	Changes              // destroys; again: changes more, or fails
	Runs                 // destroys what it likes, in an open world
)

// Tool is one operation.
type Tool struct {
	Name        string
	Title       string // for people
	Description string // a line that an agent understands
	Kind        Kind
	Args        []Arg
	Request     reflect.Type // a struct, of whose JSON the arguments are
	Result      reflect.Type // whose JSON is what a call gives

	input   *jsonschema.Schema
	output  *jsonschema.Schema
	text    func(result any) string // nil: JSON
	check   *jsonschema.Resolved
	lenient bool
	call    func(ctx context.Context, args json.RawMessage, report func(string)) (any, error)
}

// Bind makes a tool of an operation whose request has the arguments as its JSON. report tells what is made meanwhile.
func Bind[Req, Res any](name, description string, kind Kind, args []Arg, operation func(ctx context.Context, req Req, report func(string)) (Res, error)) Tool {
	t := Tool{Name: name, Description: description, Kind: kind, Args: args, Request: reflect.TypeFor[Req](), Result: reflect.TypeFor[Res](), input: objectOf(args)}
	t.output = outputOf(name, []reflect.Type{t.Result})
	var err error
	if t.check, err = t.input.Resolve(nil); err != nil {
		panic(fmt.Sprintf("the schema of %s: %v", name, err)) // it is made of constants
	}
	t.call = func(ctx context.Context, text json.RawMessage, report func(string)) (any, error) {
		var req Req
		if err := json.Unmarshal(text, &req); err != nil {
			return nil, fault.Newf(fault.Invalid, "the arguments of %s: %w", name, err)
		}
		return operation(ctx, req, report)
	}
	return t
}

// Without is the tool with fewer arguments.
func (t Tool) Without(names ...string) Tool {
	var args []Arg
	for _, a := range t.Args {
		keep := true
		for _, n := range names {
			keep = keep && a.Name != n
		}
		if keep {
			args = append(args, a)
		}
	}
	t.Args, t.input = args, objectOf(args)
	t.check, _ = t.input.Resolve(nil) // a part of what could be resolved
	return t
}

// Announced is the tool as clients see it.
func (t Tool) Announced() *sdk.Tool {
	a := &sdk.ToolAnnotations{
		Title: t.Title, ReadOnlyHint: t.Kind == Reads, IdempotentHint: t.Kind == Reads || t.Kind == Sets || t.Kind == Replaces,
		DestructiveHint: new(t.Kind == Replaces || t.Kind == Changes || t.Kind == Runs), OpenWorldHint: new(t.Kind == Runs || t.Kind == Fetches),
	}
	tool := &sdk.Tool{Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.input, Annotations: a}
	if t.output != nil {
		tool.OutputSchema = t.output
	}
	return tool
}

// Schema is that of the tool's arguments, as JSON.
func (t Tool) Schema() (json.RawMessage, error) { return json.Marshal(t.input) }

// MaxResult bounds the JSON of a result, in bytes. Operations cut what can be long before that, and tell how to get the rest.
const MaxResult = 1 << 20

// handle serves a call by a server.
func (t Tool) handle(ctx context.Context, r *sdk.CallToolRequest, s *Server) (*sdk.CallToolResult, error) {
	ctx, release := untilGone(ctx, r)
	defer release()
	meanwhile := newReporter(ctx, r, s.quiet)
	defer meanwhile.stop()
	ctx = context.WithValue(context.WithValue(ctx, personKey{}, &person{r, &s.questions}), outputKey{}, meanwhile)
	result, err := t.result(ctx, r.Params.Arguments, meanwhile.report)
	if u := (*unanswered)(nil); errors.As(err, &u) {
		return u.asking(&s.questions), nil
	}
	if err != nil {
		return failed(s.hinted(err)), nil
	}
	structure, text := result, t.text
	switch r := result.(type) {
	case Plain:
		structure, text = plain{string(r)}, func(any) string { return string(r) }
	case Texted:
		structure, text = r.Structure, func(any) string { return r.Text }
	}
	whole, err := t.encoded(structure)
	if err != nil {
		return failed(err), nil
	}
	if text == nil {
		text = func(any) string { return string(whole) }
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text(result)}}, StructuredContent: whole}, nil
}

// answer is the result of a call as JSON.
func (t Tool) answer(ctx context.Context, args json.RawMessage, report func(string)) (json.RawMessage, error) {
	result, err := t.result(ctx, args, report)
	if err != nil {
		return nil, err
	}
	return t.encoded(result)
}

// result is that of a call. What panics in it is an error: it must not end the server, and with it all other calls.
func (t Tool) result(ctx context.Context, args json.RawMessage, report func(string)) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			slog.Error("a call panicked", "tool", t.Name, "panic", p, "stack", string(debug.Stack()))
			err = fault.New(fault.Internal, t.Name, "", "a fault of pyro itself: %.200v", p).WithHint("pyro --debug mcp serve logs where")
		}
	}()
	if len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	args = t.named(args)
	if t.lenient {
		args = t.loosened(args)
	}
	if err := t.accept(args); err != nil {
		return nil, err
	}
	return t.call(ctx, args, report)
}

// named gives arguments that came by another name their own. An argument that came by both stays, for the schema to refuse.
func (t Tool) named(args json.RawMessage) json.RawMessage {
	renamed := false
	var given map[string]json.RawMessage
	for _, a := range t.Args {
		if a.alias == "" {
			continue
		}
		if given == nil && json.Unmarshal(args, &given) != nil {
			return args
		}
		if value, ok := given[a.alias]; ok && given[a.Name] == nil {
			given[a.Name], renamed = value, true
			delete(given, a.alias)
		}
	}
	if !renamed {
		return args
	}
	text, err := json.Marshal(given)
	if err != nil {
		return args
	}
	return text
}

// encoded is a result as JSON.
func (t Tool) encoded(result any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // code is full of <, > and &
	if err := e.Encode(result); err != nil {
		return nil, err
	}
	text := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if len(text) > MaxResult {
		return nil, fault.New(fault.Exhausted, t.Name, "", "the result has %d bytes, and may have %d", len(text), MaxResult).WithHint("ask for less")
	}
	return text, nil
}

// accept checks arguments against the tool's schema.
func (t Tool) accept(args json.RawMessage) error {
	var given map[string]any
	if err := json.Unmarshal(args, &given); err != nil {
		return fault.New(fault.Invalid, t.Name, "", "the arguments are no JSON object: %w", err)
	}
	for name := range given {
		if t.input.Properties[name] == nil {
			return fault.New(fault.Invalid, t.Name, "", "it has no argument %.80q", name)
		}
	}
	for _, a := range t.Args {
		if _, ok := given[a.Name]; a.Required && !ok {
			if t.lenient {
				return fault.New(fault.Invalid, t.Name, "", "%s is required", a.Name)
			}
			return fault.New(fault.Invalid, t.Name, "", "the argument %s is missing", a.Name)
		}
	}
	if err := t.check.Validate(given); err != nil {
		return fault.New(fault.Invalid, t.Name, "", "the arguments are not right: %s", shortened(err))
	}
	return nil
}

// shortened is the cause of an error, in few words: an argument may be megabytes.
func shortened(err error) string {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	text := err.Error()
	if len(text) > 300 {
		text = text[:300] + "…"
	}
	return text
}

// failure is the structured form of an error.
type failure struct {
	Error string     `json:"error"`
	Kind  fault.Kind `json:"kind"`
	Hint  string     `json:"hint,omitempty"`
}

// failed is an error as a result, which the agent can read.
func failed(err error) *sdk.CallToolResult {
	f := failure{err.Error(), fault.KindOf(err), fault.HintOf(err)}
	text := fmt.Sprintf("%s (%s)", f.Error, f.Kind)
	if f.Hint != "" {
		text += "\nhint: " + f.Hint
	}
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: text}}, StructuredContent: f}
}
