package mcp

import (
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"
)

// Arg is one argument of a tool.
type Arg struct {
	Name     string
	Required bool
	schema   *jsonschema.Schema
	alias    string // a name that is taken for Name, and not announced
}

// Schema is what the argument may be.
func (a Arg) Schema() *jsonschema.Schema { return a.schema }

// Text is an argument that is a text. options, where there are any, are all that it may be.
func Text(name, description string, options ...string) Arg {
	s := &jsonschema.Schema{Type: "string", Description: description}
	for _, o := range options {
		s.Enum = append(s.Enum, o)
	}
	return Arg{Name: name, schema: s}
}

// Number is a whole number from least to most; most 0: however large.
func Number(name, description string, least, most int) Arg {
	s := &jsonschema.Schema{Type: "integer", Description: description, Minimum: new(float64(least))}
	if most > 0 {
		s.Maximum = new(float64(most))
	}
	return Arg{Name: name, schema: s}
}

// Flag is true or false, which is the default.
func Flag(name, description string) Arg {
	return Arg{Name: name, schema: &jsonschema.Schema{Type: "boolean", Description: description}}
}

// Texts is a list of texts.
func Texts(name, description string) Arg {
	return Arg{Name: name, schema: &jsonschema.Schema{Type: "array", Description: description, Items: &jsonschema.Schema{Type: "string"}}}
}

// Pairs is an object whose values are texts.
func Pairs(name, description string) Arg {
	return Arg{Name: name, schema: &jsonschema.Schema{Type: "object", Description: description, AdditionalProperties: &jsonschema.Schema{Type: "string"}}}
}

// Object is an object with arguments of its own.
func Object(name, description string, args ...Arg) Arg {
	s := objectOf(args)
	s.Description = description
	return Arg{Name: name, schema: s}
}

// Objects is a list of such.
func Objects(name, description string, args ...Arg) Arg {
	return Arg{Name: name, schema: &jsonschema.Schema{Type: "array", Description: description, Items: objectOf(args)}}
}

// Must has the argument be given.
func (a Arg) Must() Arg {
	a.Required = true
	return a
}

// Or accepts the argument by another name too, which is not announced.
func (a Arg) Or(alias string) Arg {
	a.alias = alias
	return a
}

// By gives the argument a default, which is that of the operation: it is told, and not filled in.
func (a Arg) By(value any) Arg {
	s := *a.schema
	s.Default, _ = json.Marshal(value)
	a.schema = &s
	return a
}

// objectOf is the schema of an object with arguments and nothing else.
func objectOf(args []Arg) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}
	for _, a := range args {
		s.Properties[a.Name] = a.schema
		s.PropertyOrder = append(s.PropertyOrder, a.Name)
		if a.Required {
			s.Required = append(s.Required, a.Name)
		}
	}
	return s
}
