// Package rpc offers operations to programs over JSON-RPC 2.0 with one message per line. Calls run
// concurrently, can be cancelled, and can send notifications that contain progress and output.
//
// The package is independent of individual methods.
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
	"github.com/pyro-mcp/pyro/internal/runes"
)

// Notifications is a set of notification kinds. A call sends notifications only if its client asks
// for them.
type Notifications int

// The kinds of notifications.
const (
	Progress Notifications = 1 << iota // progress events
	Output                             // the output of a command
)

// Method offers an operation to clients as a JSON-RPC method.
type Method struct {
	Name          string
	As            string        // the equivalent: a pyro command with --json, or a function of the Go package
	Notifications Notifications // notifications that calls can send.
	Request       reflect.Type  // a struct whose JSON form is the params
	Result        reflect.Type  // a type whose JSON form is the result

	call func(ctx context.Context, params json.RawMessage, c *Call) (any, error)
}

// Bind creates a method from an operation. The params are the JSON form of the operation's request.
// Unknown fields are an error.
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

// Notifying returns the method with the given set of notifications.
func (m Method) Notifying(n Notifications) Method {
	m.Notifications = n
	return m
}

// Field is a parameter of a method.
type Field struct {
	Name string
	Type reflect.Type
}

// Fields returns the parameters of a method, in the order of the fields in its request.
func (m Method) Fields() (all []Field) {
	for f := range m.Request.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" && f.IsExported() {
			all = append(all, Field{name, f.Type})
		}
	}
	return all
}

// serve runs a call. It converts a panic to an error, so that the server and other calls continue.
func (m Method) serve(ctx context.Context, params json.RawMessage, c *Call) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			slog.Error("a call panicked", "method", m.Name, "panic", p, "stack", string(debug.Stack()))
			err = fault.New(fault.Internal, m.Name, "", "a fault of pyro itself: %.200v", p).WithHint("PYRO_DEBUG=1 logs where")
		}
	}()
	return m.call(ctx, params, c)
}

// options contains the parameters that every method has.
type options struct {
	Stream bool  `json:"stream"` // send notifications
	Window int64 `json:"window"` // maximum amount of unacknowledged output, in bytes; 0 means no limit
}

// split separates the options from the method's own parameters, in the form of Tolerant. It refuses
// unknown parameters.
func (m Method) split(params json.RawMessage) (rest json.RawMessage, o options, err error) {
	if len(params) == 0 || string(params) == "null" {
		return json.RawMessage("{}"), o, nil
	}
	params = Tolerant(params)
	var given map[string]json.RawMessage
	if json.Unmarshal(params, &given) != nil {
		return nil, o, fault.New(fault.Invalid, m.Name, "", "params must be an object")
	}
	for name, value := range given {
		if err := runes.CheckText(value); err != nil {
			return nil, o, fault.New(fault.Invalid, m.Name, "", "the parameter %.80q must be text: %w", name, err)
		}
	}
	known := map[string]bool{"stream": true, "window": true}
	for _, f := range m.Fields() {
		known[f.Name] = true
	}
	for name := range given {
		if !known[name] {
			return nil, o, fault.New(fault.Invalid, m.Name, "", "unknown parameter %.80q", name)
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
	text, _ := json.Marshal(own) // can't fail: own was decoded from JSON
	if json.Unmarshal(text, &o) != nil || o.Window < 0 {
		return nil, o, fault.New(fault.Invalid, m.Name, "", "stream must be true or false, and window a number of bytes")
	}
	rest, err = json.Marshal(given)
	return rest, o, err
}

// fill decodes params into a request. Its errors contain the names of parameters, but never their
// values, because values can be secret.
func fill(req any, params json.RawMessage) error {
	d := json.NewDecoder(bytes.NewReader(params))
	d.DisallowUnknownFields()
	err := d.Decode(req)
	var wrong *json.UnmarshalTypeError
	if name, ok := strings.CutPrefix(fmt.Sprint(err), "json: unknown field "); ok {
		return fault.Newf(fault.Invalid, "unknown parameter %.80s", name)
	} else if errors.As(err, &wrong) {
		return fault.Newf(fault.Invalid, "%.80s must be %s", wrong.Field, nameOf(wrong.Type))
	} else if err != nil {
		return fault.Newf(fault.Invalid, "invalid params")
	}
	return nil
}

// nameOf returns the name of a type for use in error messages.
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
