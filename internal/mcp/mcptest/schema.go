package mcptest

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// checked validates each result against the tool's output schema, and allows no undeclared fields.
// It also checks that every hint refers to a tool, not to a command.
func checked(t testing.TB) sdk.Middleware {
	var once sync.Once
	schemas := map[string]*jsonschema.Resolved{}
	list := func(ctx context.Context, c *sdk.ClientSession) {
		for tool, err := range c.Tools(ctx, nil) {
			if err != nil {
				t.Errorf("list tools: %v", err)
				return
			}
			schemas[tool.Name] = resolved(t, tool)
		}
	}
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			result, err := next(ctx, method, r)
			called, ok := result.(*sdk.CallToolResult)
			if !ok || err != nil || called == nil || len(called.InputRequests) > 0 {
				return result, err
			}
			once.Do(func() { list(context.WithoutCancel(ctx), r.GetSession().(*sdk.ClientSession)) })
			name := r.GetParams().(*sdk.CallToolParams).Name
			if text, _ := json.Marshal(called); strings.Contains(string(text), "pyro workspace ") {
				t.Errorf("%s: the result has a CLI command as a hint: %s", name, text)
			}
			if schemas[name] == nil { // the server does not announce this tool
				return result, err
			}
			if err := schemas[name].Validate(called.StructuredContent); err != nil {
				t.Errorf("%s: %+v does not match its schema: %v", name, called.StructuredContent, err)
			}
			return result, err
		}
	}
}

// resolved returns a tool's output schema, changed so that it allows no undeclared fields.
func resolved(t testing.TB, tool *sdk.Tool) *jsonschema.Resolved {
	if tool.OutputSchema == nil {
		return nil
	}
	text, err := json.Marshal(tool.OutputSchema)
	if err != nil {
		t.Errorf("%s: %v", tool.Name, err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		t.Errorf("%s: %v", tool.Name, err)
		return nil
	}
	for _, name := range []string{"error", "kind", "hint"} { // only error results have these fields
		if s.Properties[name] == nil {
			s.Properties[name] = &jsonschema.Schema{Type: "string"}
		}
	}
	closed(&s)
	r, err := s.Resolve(nil)
	if err != nil {
		t.Errorf("%s: %v", tool.Name, err)
	}
	return r
}

func closed(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if len(s.Properties) > 0 {
		s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	}
	for _, p := range s.Properties {
		closed(p)
	}
	closed(s.Items)
}
