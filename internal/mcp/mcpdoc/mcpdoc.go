// Package mcpdoc describes tools in Markdown, for generated references.
package mcpdoc

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/pyro-mcp/pyro/internal/mcp"
)

// Annotations returns a text that describes the effects of a tool.
func Annotations(t mcp.Tool) string {
	a := t.Definition().Annotations
	if a.ReadOnlyHint {
		return "Read-only"
	}
	text := "Only adds"
	if *a.DestructiveHint {
		text = "Destructive"
	} else if a.IdempotentHint {
		text = "Not destructive"
	}
	if a.IdempotentHint {
		text += "; idempotent"
	}
	if *a.OpenWorldHint {
		text += "; open world"
	}
	return text
}

// Arguments writes a table of the tool's arguments, or nothing if the tool has none. The function
// note returns the description of an argument. If note is nil, Arguments uses the description in
// the schema.
func Arguments(w io.Writer, t mcp.Tool, note func(mcp.Arg) string) {
	if len(t.Args) == 0 {
		return
	}
	if note == nil {
		note = func(a mcp.Arg) string { return a.Schema().Description }
	}
	fmt.Fprint(w, "\n| argument | type | default | |\n| --- | --- | --- | --- |\n")
	for _, a := range t.Args {
		fmt.Fprintf(w, "| `%s` | %s | %s | %s |\n", a.Name, Type(a.Schema()), Default(a), note(a))
	}
}

// Type returns a text that describes the values that a schema allows.
func Type(s *jsonschema.Schema) string {
	switch {
	case len(s.Enum) > 0:
		var options []string
		for _, o := range s.Enum {
			options = append(options, fmt.Sprintf("`%v`", o))
		}
		return strings.Join(options, ", ")
	case s.Type == "integer" && s.Maximum != nil:
		return fmt.Sprintf("integer, %d to %d", int(*s.Minimum), int(*s.Maximum))
	case s.Type == "integer":
		return fmt.Sprintf("integer, from %d", int(*s.Minimum))
	case s.Type == "array":
		return "array of " + Type(s.Items)
	case s.Type == "object" && len(s.PropertyOrder) == 0:
		return "object of strings"
	case s.Type == "object":
		var fields []string
		for _, name := range s.PropertyOrder {
			f := s.Properties[name]
			text := fmt.Sprintf("`%s` (%s", name, Type(f))
			if slices.Contains(s.Required, name) {
				text += ", required"
			}
			if f.Description != "" {
				text += ": " + f.Description
			}
			fields = append(fields, text+")")
		}
		return "object of " + strings.Join(fields, ", ")
	}
	return s.Type
}

// Default returns a text that describes the default of an argument.
func Default(a mcp.Arg) string {
	switch s := a.Schema(); {
	case a.Required:
		return "required"
	case s.Default != nil:
		return "`" + string(s.Default) + "`"
	}
	return ""
}
