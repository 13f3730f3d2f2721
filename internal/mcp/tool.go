// Package mcp offers operations to agents over the Model Context Protocol. It checks arguments
// against schemas and returns structured results.
//
// The package is independent of individual operations. The official Go SDK implements the protocol.
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
	"github.com/pyro-mcp/pyro/internal/runes"
)

// Kind describes the effects of a tool. Clients use it to decide when they ask their user.
type Kind int

// The kinds of tools. A destructive tool can remove or replace existing files, processes or
// records. An open-world tool runs commands or fetches images.
const (
	Reads    Kind = iota // changes nothing
	Adds                 // not destructive: a repeated call adds another one or fails
	Fetches              // like Adds, in an open world
	Sets                 // not destructive. Idempotent.
	Replaces             // destructive. Idempotent.
	Changes              // destructive: a repeated call changes more or fails
	Runs                 // destructive, open world
)

// Tool offers an operation to clients as an MCP tool.
type Tool struct {
	Name        string
	Title       string // shown to users
	Description string // one line for agents
	Kind        Kind
	Args        []Arg
	Request     reflect.Type // a struct whose JSON form is the arguments
	Result      reflect.Type // a type whose JSON form is the result

	input   *jsonschema.Schema
	output  *jsonschema.Schema
	text    func(result any) string // formats the result; if nil, the text is JSON
	lenient bool
	call    func(ctx context.Context, args json.RawMessage, report func(string)) (any, error)
}

// Bind creates a tool from an operation. The arguments are the JSON form of the operation's
// request. The operation reports its progress by calling report.
func Bind[Req, Res any](name, description string, kind Kind, args []Arg, operation func(ctx context.Context, req Req, report func(string)) (Res, error)) Tool {
	t := Tool{Name: name, Description: description, Kind: kind, Args: args, Request: reflect.TypeFor[Req](), Result: reflect.TypeFor[Res](), input: objectOf(args)}
	t.output = outputOf(name, []reflect.Type{t.Result})
	t.call = func(ctx context.Context, text json.RawMessage, report func(string)) (any, error) {
		var req Req
		if err := json.Unmarshal(text, &req); err != nil {
			return nil, fault.Newf(fault.Invalid, "the arguments of %s: %w", name, err)
		}
		return operation(ctx, req, report)
	}
	return t
}

// Without returns the tool without the named arguments.
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
	return t
}

// Definition returns the tool in the form that is announced to clients.
func (t Tool) Definition() *sdk.Tool {
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

// Schema returns the JSON schema of the arguments.
func (t Tool) Schema() (json.RawMessage, error) { return json.Marshal(t.input) }

// MaxResult is the maximum size of a result as JSON, in bytes. Operations truncate longer results
// themselves, and report how to get the rest.
const MaxResult = 1 << 20

// handle serves a client's call.
func (t Tool) handle(ctx context.Context, r *sdk.CallToolRequest, s *Server) (*sdk.CallToolResult, error) {
	ctx, release := untilDisconnect(ctx, r)
	defer release()
	reporter := newReporter(ctx, r, s.quiet)
	defer reporter.stop()
	ctx = context.WithValue(context.WithValue(ctx, personKey{}, &person{r, &s.questions}), outputKey{}, reporter)
	result, err := t.result(ctx, r.Params.Arguments, reporter.report)
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
	case TextResult:
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

// answer returns the result of a call as JSON.
func (t Tool) answer(ctx context.Context, args json.RawMessage, report func(string)) (json.RawMessage, error) {
	result, err := t.result(ctx, args, report)
	if err != nil {
		return nil, err
	}
	return t.encoded(result)
}

// result runs a call. It converts a panic to an error, so that the server and other calls continue.
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
	if err := t.onlyText(args); err != nil {
		return nil, err
	}
	args = t.renameAliases(args)
	if args, err = t.accept(args); err != nil {
		return nil, err
	}
	return t.call(ctx, args, report)
}

// onlyText refuses arguments with something that is not text. Otherwise it would be replaced.
func (t Tool) onlyText(args json.RawMessage) error {
	err := runes.CheckText(args)
	if err == nil {
		return nil
	}
	what := "the arguments"
	var given map[string]json.RawMessage
	if json.Unmarshal(args, &given) == nil {
		for name, value := range given {
			if runes.CheckText(value) != nil {
				what = fmt.Sprintf("the argument %.80q", name)
			}
		}
	}
	return fault.New(fault.Invalid, t.Name, "", "%s must be text: %w", what, err)
}

// renameAliases renames arguments that were passed under an alias. Null counts as a missing
// argument. If an argument is present under both names, it changes neither. The schema check then
// refuses the alias.
func (t Tool) renameAliases(args json.RawMessage) json.RawMessage {
	renamed := false
	var given map[string]json.RawMessage
	for _, a := range t.Args {
		if a.alias == "" {
			continue
		}
		if given == nil && json.Unmarshal(args, &given) != nil {
			return args
		}
		value, ok := given[a.alias]
		if isNull := string(value) == "null"; ok && (isNull || given[a.Name] == nil || string(given[a.Name]) == "null") {
			if !isNull {
				given[a.Name] = value
			}
			delete(given, a.alias)
			renamed = true
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

// encoded returns a result as JSON.
func (t Tool) encoded(result any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // source code contains many of the characters that this would escape
	if err := e.Encode(result); err != nil {
		return nil, err
	}
	text := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if len(text) > MaxResult {
		return nil, fault.New(fault.Exhausted, t.Name, "", "the result has %d bytes; the limit is %d", len(text), MaxResult).WithHint("ask for less")
	}
	return text, nil
}

// failure is the structured form of an error.
type failure struct {
	Error string     `json:"error"`
	Kind  fault.Kind `json:"kind"`
	Hint  string     `json:"hint,omitempty"`
}

// failed returns an error as a tool result, so that the agent can read it.
func failed(err error) *sdk.CallToolResult {
	f := failure{err.Error(), fault.KindOf(err), fault.HintOf(err)}
	text := fmt.Sprintf("%s (%s)", f.Error, f.Kind)
	if f.Hint != "" {
		text += "\nhint: " + f.Hint
	}
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: text}}, StructuredContent: f}
}
