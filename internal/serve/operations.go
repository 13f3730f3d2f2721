package serve

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/operations"
	"github.com/pyro-mcp/pyro/internal/passive"
	"github.com/pyro-mcp/pyro/internal/rpc"
)

// callable are the operations that hosts run on sandboxes.
var callable = operations.RemoteOperations(nil)

// Call implements operations.Remote for the sender of a request. It resumes a paused sandbox only
// if the sender may change the sandbox, and not for a passive request.
func (s *Server) Call(ctx context.Context, sandbox, method string, changes bool, params json.RawMessage, to rpc.Listener) (json.RawMessage, error) {
	i, role := identity(ctx), store.RoleViewer
	if changes {
		role = store.RoleMember
	}
	if err := i.Require(role); err != nil { // MCP calls are not checked before
		return nil, err
	}
	return s.control.CallSandbox(ctx, i.Actor, sandbox, control.Call{
		Method: method, Params: params, Changes: changes, Stdout: to.Stdout, Stderr: to.Stderr, Progress: to.Progress,
		NeedsMachine: callable[method].Needs != operations.NeedsRecords, Resumes: i.Require(store.RoleMember) == nil && !passive.Is(ctx),
	})
}

// callOperation calls an operation of the table on a sandbox.
func callOperation[Req, Res any](ctx context.Context, s *Server, id, method string, changes bool, req Req) (result Res, err error) {
	if result, err = operations.CallRemote[Req, Res](ctx, s, id, method, changes, req); err != nil {
		return result, newError(err)
	}
	return result, nil
}

// register binds a route to an operation of the table. The function requestOf returns the sandbox
// and the request of the operation. Its third result only determines the type Res. An operation
// that needs more than the role viewer counts as a change of the sandbox.
func register[In, Req, Res any](s *Server, o huma.Operation, method string, requestOf func(*In) (id string, req Req, of Res)) {
	s.describe(reflect.TypeFor[In](), true)
	s.describe(reflect.TypeFor[Res](), false)
	changes := o.Metadata[need] != store.RoleViewer
	huma.Register(s.api, o, func(ctx context.Context, in *In) (*body[Res], error) {
		id, req, _ := requestOf(in)
		result, err := callOperation[Req, Res](ctx, s, id, method, changes, req)
		if err != nil {
			return nil, err
		}
		return &body[Res]{result}, nil
	})
}

// byID is the requestOf function of operations that need only the sandbox.
func byID[Res any](in *ByID) (id string, req struct{}, of Res) { return in.ID, req, of }

// withBody is a request about a sandbox with a body.
type withBody[Req any] struct {
	ByID
	Body Req
}

// requestIn is the requestOf function of operations with a request body.
func requestIn[Req, Res any](in *withBody[Req]) (id string, req Req, of Res) {
	return in.ID, in.Body, of
}

// largest sets the maximum size of a body, in bytes.
func largest(bytes int64) func(*huma.Operation) {
	return func(o *huma.Operation) { o.MaxBodyBytes = bytes }
}

// pyroPackage is the import path of package pyro, and the prefix of its packages.
const pyroPackage = "github.com/pyro-mcp/pyro"

// schemaName returns the name of a type's schema. Types of other packages get the name of the
// package as a prefix.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	t = element(t)
	if !isForeign(t) {
		return name
	}
	of := t.PkgPath()
	prefix := []rune(of[strings.LastIndexByte(of, '/')+1:])
	prefix[0] = unicode.ToUpper(prefix[0])
	return string(prefix) + name
}

// element returns the element type of pointers and slices, at any depth.
func element(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}

// isForeign reports whether a type has a name and belongs to another package of pyro.
func isForeign(t reflect.Type) bool {
	of := t.PkgPath()
	return t.Name() != "" && strings.HasPrefix(of, pyroPackage) && !strings.HasSuffix(of, "/internal/serve")
}

// notInBody lists request fields that clients of a sandbox can't set. Sandboxes have no secrets,
// and clients reach ports through previews.
var notInBody = []string{"workspace_id", "secret_env", "published_ports"}

// describe corrects the schemas of all types of package pyro that t contains. It makes pointers to
// structs nullable. In requests, it removes the fields of notInBody.
func (s *Server) describe(t reflect.Type, request bool) {
	s.describeOnce(t, request, map[reflect.Type]bool{})
}

func (s *Server) describeOnce(t reflect.Type, request bool, seen map[reflect.Type]bool) {
	t = element(t)
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() || seen[t] {
		return
	}
	seen[t] = true
	for f := range t.Fields() {
		if f.IsExported() && f.Tag.Get("json") != "-" {
			s.describeOnce(f.Type, request, seen)
		}
	}
	if !isForeign(t) {
		return
	}
	all := s.api.OpenAPI().Components.Schemas
	schema := all.SchemaFromRef(all.Schema(t, true, "").Ref)
	for f := range t.Fields() {
		name, omit, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := schema.Properties[name]
		if f.Type.Kind() == reflect.Pointer && omit == "" && p != nil && p.Ref != "" {
			schema.Properties[name] = &huma.Schema{AnyOf: []*huma.Schema{p, {Type: "null"}}}
		}
	}
	if request {
		for _, name := range notInBody {
			delete(schema.Properties, name)
			schema.Required = slices.DeleteFunc(schema.Required, func(r string) bool { return r == name })
		}
	}
	schema.PrecomputeMessages()
}
