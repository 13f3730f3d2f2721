package cli

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// TestJSONReference holds docs/json.md against the structs that are printed.
func TestJSONReference(t *testing.T) {
	text, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for section := range strings.SplitSeq(string(text), "\n## ") {
		title, body, _ := strings.Cut(section, "\n")
		sections[title] = body
	}
	for title, value := range map[string]any{
		"Errors":                          fault.Report{},
		"pyro run":                        pyro.RunResult{},
		"pyro env inspect, pyro env pull": pyro.Environment{},
		"pyro env prune":                  pyro.PruneResult{},
		"pyro doctor":                     pyro.DoctorReport{},
	} {
		body, ok := sections[title]
		if !ok {
			t.Errorf("no section %q", title)
		}
		for _, f := range jsonFields(reflect.TypeOf(value)) {
			line := ""
			for l := range strings.Lines(body) {
				if strings.Contains(l, "`"+f.name+"`") {
					line = l
					break
				}
			}
			if line == "" {
				t.Errorf("%s: field %q is not described", title, f.name)
			} else if strings.Contains(line, "| *optional*") != f.optional && strings.HasPrefix(line, "| `"+f.name) {
				t.Errorf("%s: field %q: optional is %v, the document says otherwise", title, f.name, f.optional)
			}
		}
	}
	for _, kind := range fault.Kinds() {
		if !strings.Contains(sections["Errors"], "| `"+string(kind)+"` |") {
			t.Errorf("kind %q is not described", kind)
		}
	}
}

type jsonField struct {
	name     string
	optional bool
}

// jsonFields gives the fields of a struct, and of the structs in it, as JSON has them.
func jsonFields(t reflect.Type) (fields []jsonField) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" {
			fields = append(fields, jsonField{name, strings.Contains(options, "omit")})
		}
		inner := f.Type
		if inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && inner.PkgPath() == reflect.TypeFor[pyro.RunResult]().PkgPath() {
			fields = append(fields, jsonFields(inner)...)
		}
	}
	return fields
}

func TestJSONIsSortedAndWhole(t *testing.T) {
	var b bytes.Buffer
	value := struct {
		Z string  `json:"z"`
		A int64   `json:"a"`
		M float64 `json:"m"`
	}{"<&>", 1 << 62, 0.125}
	if err := printJSON(&b, value); err != nil {
		t.Fatal(err)
	}
	if want := "{\n  \"a\": 4611686018427387904,\n  \"m\": 0.125,\n  \"z\": \"<&>\"\n}\n"; b.String() != want {
		t.Errorf("got %s", &b)
	}
}
