package mcp

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Plain is a result that consists only of text. Its structured form is an object with the field
// result.
type Plain string

// TextResult is a result whose text differs from the JSON of its structure.
type TextResult struct {
	Text      string
	Structure any // a value of one of the types given to Returns
}

// MarshalJSON returns the text as JSON, so that Server.Call returns the text.
func (t TextResult) MarshalJSON() ([]byte, error) { return json.Marshal(t.Text) }

// plain is the structured form of a Plain.
type plain struct {
	Result string `json:"result"`
}

// WithTitle returns the tool with a title. Clients show the title to users.
func (t Tool) WithTitle(title string) Tool {
	t.Title = title
	return t
}

// RenderedBy returns the tool with a function that formats results for a model. Without such a
// function, the text of a result is the JSON of its structure.
func (t Tool) RenderedBy(text func(result any) string) Tool {
	t.text = text
	return t
}

// Returns declares the result types of a tool whose operation has the result type any. The types
// can be structs, pointers to structs, or Plain.
func (t Tool) Returns(results ...any) Tool {
	var types []reflect.Type
	for _, r := range results {
		types = append(types, reflect.TypeOf(r))
	}
	t.output = outputOf(t.Name, types)
	return t
}

// OutputSchema returns the schema of the tool's structured results, including errors. It is nil if
// the operation has the result type any and Returns was not called.
func (t Tool) OutputSchema() *jsonschema.Schema { return t.output }

// outputOf returns a schema for results of all given types, and for errors. The schema allows
// undeclared fields, because later versions might add fields.
func outputOf(tool string, types []reflect.Type) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
	for _, of := range types {
		for of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of == reflect.TypeFor[Plain]() {
			of = reflect.TypeFor[plain]()
		}
		if of.Kind() != reflect.Struct {
			return nil
		}
		one, err := jsonschema.ForType(of, nil)
		if err != nil {
			panic(fmt.Sprintf("the output schema of %s: %v", tool, err)) // can't happen: the schema is derived from Go types
		}
		open(one, of)
		for _, name := range one.PropertyOrder {
			if s.Properties[name] == nil {
				s.PropertyOrder = append(s.PropertyOrder, name)
				s.Properties[name] = one.Properties[name]
			}
		}
		s.AnyOf = append(s.AnyOf, &jsonschema.Schema{Required: one.Required})
	}
	s.AnyOf = append(s.AnyOf, &jsonschema.Schema{Required: []string{"error", "kind"}})
	return s
}

// open makes a schema allow undeclared fields at any depth. It makes the fields of embedded
// pointers optional, because JSON omits these fields if the pointer is nil.
func open(s *jsonschema.Schema, t reflect.Type) {
	switch {
	case s == nil:
	case t.Kind() == reflect.Pointer:
		open(s, t.Elem())
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		open(s.Items, t.Elem())
	case t.Kind() == reflect.Map:
		open(s.AdditionalProperties, t.Elem())
	case t.Kind() == reflect.Struct && len(s.Properties) > 0:
		s.AdditionalProperties = nil
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous || s.Properties[name] == nil {
				continue
			}
			open(s.Properties[name], f.Type)
			for depth := 1; depth < len(f.Index); depth++ {
				if t.FieldByIndex(f.Index[:depth]).Type.Kind() == reflect.Pointer {
					s.Required = slices.DeleteFunc(s.Required, func(r string) bool { return r == name })
				}
			}
		}
	}
}
