// Package rpc serves operations to programs as JSON-RPC 2.0, a message a line: calls run at once, can be cancelled, and tell meanwhile what they do and print.
//
// It has no logic of what a method does.
package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime/debug"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Notes are what a call may tell before its result, where its client asks for it.
type Notes int

// The notes.
const (
	Progress Notes = 1 << iota // what is made
	Output                     // what a command prints
)

// Method is one operation.
type Method struct {
	Name    string
	As      string       // what gives the same result: a command of pyro's with --json, or a function of its Go package
	Notes   Notes        // that it may tell
	Request reflect.Type // a struct, of whose JSON the params are
	Result  reflect.Type // whose JSON is what a call gives

	call func(ctx context.Context, params json.RawMessage, c *Call) (any, error)
}

// Bind makes a method of an operation whose request has the params as its JSON, and none of its fields is in them that the request does not have.
func Bind[Req, Res any](name, as string, operation func(ctx context.Context, req Req, c *Call) (Res, error)) Method {
	m := Method{Name: name, As: as, Request: reflect.TypeFor[Req](), Result: reflect.TypeFor[Res]()}
	m.call = func(ctx context.Context, params json.RawMessage, c *Call) (any, error) {
		var req Req
		if err := fill(&req, params); err != nil {
			return nil, fault.Wrap(err, name, "")
		}
		return operation(ctx, req, c)
	}
	return m
}

// Telling is the method with what it may tell.
func (m Method) Telling(notes Notes) Method {
	m.Notes = notes
	return m
}

// Field is one of a method's params.
type Field struct {
	Name string
	Type reflect.Type
}

// Fields are a method's params, in the order of its request.
func (m Method) Fields() (all []Field) {
	for f := range m.Request.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" && f.IsExported() {
			all = append(all, Field{name, f.Type})
		}
	}
	return all
}

// serve does what is asked for. What panics in it is an error: it must not end the server, and with it all other calls.
func (m Method) serve(ctx context.Context, params json.RawMessage, c *Call) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			slog.Error("a call panicked", "method", m.Name, "panic", p, "stack", string(debug.Stack()))
			err = fault.New(fault.Internal, m.Name, "", "a fault of pyro itself: %.200v", p).WithHint("PYRO_DEBUG=1 logs where")
		}
	}()
	return m.call(ctx, params, c)
}

// options are what a client says of a call itself, among its params.
type options struct {
	Stream bool  `json:"stream"` // it is told what comes before the result
	Window int64 `json:"window"` // bytes of output that may be on their way to it at most; 0: any number
}

// split takes the options out of params, which must be an object whose names are those of the method.
func (m Method) split(params json.RawMessage) (rest json.RawMessage, o options, err error) {
	if len(params) == 0 || string(params) == "null" {
		return json.RawMessage("{}"), o, nil
	}
	var given map[string]json.RawMessage
	if json.Unmarshal(params, &given) != nil {
		return nil, o, fault.New(fault.Invalid, m.Name, "", "params must be an object")
	}
	known := map[string]bool{"stream": true, "window": true}
	for _, f := range m.Fields() {
		known[f.Name] = true
	}
	for name := range given {
		if !known[name] {
			return nil, o, fault.New(fault.Invalid, m.Name, "", "it has no parameter %.80q", name)
		}
	}
	own := map[string]json.RawMessage{}
	for _, name := range []string{"stream", "window"} {
		if value, ok := given[name]; ok {
			own[name] = value
			delete(given, name)
		}
	}
	if len(own) == 0 {
		return params, o, nil
	}
	text, _ := json.Marshal(own) // it was JSON
	if json.Unmarshal(text, &o) != nil || o.Window < 0 {
		return nil, o, fault.New(fault.Invalid, m.Name, "", "stream must be true or false, and window a number of bytes")
	}
	rest, err = json.Marshal(given)
	return rest, o, err
}

// fill puts params into a request. An error tells the name of what is wrong, never what it holds.
func fill(req any, params json.RawMessage) error {
	d := json.NewDecoder(bytes.NewReader(params))
	d.DisallowUnknownFields()
	err := d.Decode(req)
	var wrong *json.UnmarshalTypeError
	if name, ok := strings.CutPrefix(fmt.Sprint(err), "json: unknown field "); ok {
		return fault.Newf(fault.Invalid, "there is no parameter %.80s", name)
	} else if errors.As(err, &wrong) {
		return fault.Newf(fault.Invalid, "%.80s must be %s", wrong.Field, nameOf(wrong.Type))
	} else if err != nil {
		return fault.Newf(fault.Invalid, "the params are not right")
	}
	return nil
}

// nameOf is what a type is called in an error.
func nameOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Slice:
		return "an array"
	}
	return "an object"
}
