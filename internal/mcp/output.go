package mcp

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Plain is a result that is a text and no more. Its structure is an object with the one field result.
type Plain string

// Texted is a result whose text is not the JSON of its structure.
type Texted struct {
	Text      string
	Structure any // that has fields of one of the types that the tool gives
}

// MarshalJSON writes the text, which is what Server.Call gives.
func (t Texted) MarshalJSON() ([]byte, error) { return json.Marshal(t.Text) }

// plain is the structure of a Plain.
type plain struct {
	Result string `json:"result"`
}

// Titled sets the name that people are shown.
func (t Tool) Titled(title string) Tool {
	t.Title = title
	return t
}

// Shown sets how a model is shown a result: its short form. Without it the text of a result is the JSON of its structure.
func (t Tool) Shown(text func(result any) string) Tool {
	t.text = text
	return t
}

// Giving sets what a tool gives whose operation returns any: structs, or pointers to them. A Plain is one too.
func (t Tool) Giving(results ...any) Tool {
	var types []reflect.Type
	for _, r := range results {
		types = append(types, reflect.TypeOf(r))
	}
	t.output = outputOf(t.Name, types)
	return t
}

// OutputSchema is that of the tool's structured results, errors among them; nil if its operation returns any and Giving was not called.
func (t Tool) OutputSchema() *jsonschema.Schema { return t.output }

// outputOf is the schema of a result that is of one of some types, or an error. Fields may be added later, and so others are allowed.
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
			panic(fmt.Sprintf("the output schema of %s: %v", tool, err)) // it is made of types
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

// open allows fields that are not in the schema of a type, at any depth, and omits those of an embedded pointer that is nil.
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
