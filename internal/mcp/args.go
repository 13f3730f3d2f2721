package mcp

import (
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"
)

// Arg is an argument of a tool.
type Arg struct {
	Name     string
	Required bool
	schema   *jsonschema.Schema
	alias    string // another accepted name, which is not announced
}

// Schema returns the JSON schema of the argument.
func (a Arg) Schema() *jsonschema.Schema { return a.schema }

// String declares a string argument. If there are options, the value must be one of them.
func String(name, description string, options ...string) Arg {
	s := &jsonschema.Schema{Type: "string", Description: description}
	for _, o := range options {
		s.Enum = append(s.Enum, o)
	}
	return Arg{Name: name, schema: s}
}

// Integer declares an integer argument with a minimum and a maximum. If the maximum is 0, there is
// no upper limit.
func Integer(name, description string, least, most int) Arg {
	s := &jsonschema.Schema{Type: "integer", Description: description, Minimum: new(float64(least))}
	if most > 0 {
		s.Maximum = new(float64(most))
	}
	return Arg{Name: name, schema: s}
}

// Boolean declares a boolean argument. Its default is false.
func Boolean(name, description string) Arg {
	return Arg{Name: name, schema: &jsonschema.Schema{Type: "boolean", Description: description}}
}

// Strings declares an argument that is an array of strings.
func Strings(name, description string) Arg {
	return Arg{Name: name, schema: &jsonschema.Schema{Type: "array", Description: description, Items: &jsonschema.Schema{Type: "string"}}}
}

// Integers declares an argument that is an array of integers, with a minimum and a maximum for
// each.
func Integers(name, description string, least, most int) Arg {
	return Arg{Name: name, schema: &jsonschema.Schema{Type: "array", Description: description, Items: Integer("", "", least, most).schema}}
}

// StringMap declares an argument that is an object whose values are strings.
func StringMap(name, description string) Arg {
	return Arg{Name: name, schema: &jsonschema.Schema{Type: "object", Description: description, AdditionalProperties: &jsonschema.Schema{Type: "string"}}}
}

// Object declares an argument that is an object with the given fields.
func Object(name, description string, args ...Arg) Arg {
	s := objectOf(args)
	s.Description = description
	return Arg{Name: name, schema: s}
}

// Objects declares an argument that is an array of objects with the given fields.
func Objects(name, description string, args ...Arg) Arg {
	return Arg{Name: name, schema: &jsonschema.Schema{Type: "array", Description: description, Items: objectOf(args)}}
}

// Require makes the argument required.
func (a Arg) Require() Arg {
	a.Required = true
	return a
}

// Alias makes the server accept the argument under a second name. This name is not announced to
// clients.
func (a Arg) Alias(alias string) Arg {
	a.alias = alias
	return a
}

// Default announces the default value that the operation uses. It does not set a missing argument.
func (a Arg) Default(value any) Arg {
	s := *a.schema
	s.Default, _ = json.Marshal(value)
	a.schema = &s
	return a
}

// objectOf returns the schema of an object that can have the given fields but no others.
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
