package serve

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed docs.html
var docsHTML string

//go:embed docs.css
var docsCSS []byte

var docsTemplate = template.Must(template.New("docs").Parse(docsHTML))

// docsPolicy is the Content-Security-Policy of /docs. The page has no script.
const docsPolicy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// bindDocs serves the OpenAPI document as a page. The first request creates the page.
func (s *Server) bindDocs() {
	page := sync.OnceValues(func() ([]byte, error) {
		var b bytes.Buffer
		err := docsTemplate.Execute(&b, newDocs(s.api.OpenAPI()))
		return b.Bytes(), err
	})
	s.mux.HandleFunc("GET /docs", func(w http.ResponseWriter, r *http.Request) {
		content, err := page()
		if err != nil {
			writeError(w, newError(err))
			return
		}
		w.Header().Set("Content-Security-Policy", docsPolicy)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(content)
	})
	s.mux.HandleFunc("GET /docs/docs.css", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		w.Header().Set("Cache-Control", "max-age=3600")
		w.Write(docsCSS)
	})
}

// docs is the content of the page.
type docs struct {
	Title, Version, Description string
	Groups                      []docsGroup
	Schemas                     []docsSchema
}

type docsGroup struct {
	Name       string
	Operations []docsOperation
}

type docsOperation struct {
	ID, Method, Path, Summary, Description string
	Role                                   string // empty: no login is needed
	Parameters                             []docsField
	Body                                   []docsBody
	Responses                              []docsResponse
}

type docsBody struct {
	Media string
	Type  docsType
	Field []docsField
}

type docsResponse struct {
	Status, Description string
	Body                []docsBody
}

type docsSchema struct {
	Name, Description string
	Fields            []docsField
}

// docsField is a parameter, or a property of an object.
type docsField struct {
	Name, In, Description string
	Type                  docsType
	Required              bool
	Limits                string
}

// docsType is a type with a link to its schema.
type docsType struct{ Before, Link, After string }

// newDocs returns the page for a document. It leaves out /v1/capsules, the second spelling of
// /v1/sandboxes.
func newDocs(doc *huma.OpenAPI) docs {
	d := docs{Title: doc.Info.Title, Version: doc.Info.Version, Description: doc.Info.Description}
	groups := map[string][]docsOperation{}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		parts := strings.Split(strings.TrimPrefix(path, "/v1"), "/")
		if parts[1] == "capsules" {
			continue
		}
		groups[parts[1]] = append(groups[parts[1]], docsOperations(doc, path)...)
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		d.Groups = append(d.Groups, docsGroup{name, groups[name]})
	}
	all := doc.Components.Schemas.Map()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		d.Schemas = append(d.Schemas, docsSchema{name, all[name].Description, docsFields(all[name])})
	}
	return d
}

func docsOperations(doc *huma.OpenAPI, path string) (all []docsOperation) {
	item := doc.Paths[path]
	for _, m := range []struct {
		method string
		o      *huma.Operation
	}{
		{http.MethodGet, item.Get}, {http.MethodPost, item.Post}, {http.MethodPut, item.Put}, {http.MethodPatch, item.Patch}, {http.MethodDelete, item.Delete},
	} {
		if m.o == nil {
			continue
		}
		d := docsOperation{ID: m.o.OperationID, Method: m.method, Path: path, Summary: m.o.Summary, Description: m.o.Description}
		if role, ok := m.o.Metadata[need]; ok && len(m.o.Security) > 0 {
			d.Role = fmt.Sprint(role)
		}
		for _, p := range m.o.Parameters {
			d.Parameters = append(d.Parameters, docsField{p.Name, p.In, p.Description, docsTypeOf(p.Schema), p.Required, docsLimits(p.Schema)})
		}
		if m.o.RequestBody != nil {
			d.Body = docsBodies(m.o.RequestBody.Content)
		}
		for _, status := range slices.Sorted(maps.Keys(m.o.Responses)) {
			if status >= "400" {
				continue // every operation has the same errors
			}
			r := m.o.Responses[status]
			d.Responses = append(d.Responses, docsResponse{status, r.Description, docsBodies(r.Content)})
		}
		all = append(all, d)
	}
	return all
}

func docsBodies(content map[string]*huma.MediaType) (all []docsBody) {
	for _, media := range slices.Sorted(maps.Keys(content)) {
		b := docsBody{Media: media}
		if schema := content[media].Schema; schema != nil {
			b.Type, b.Field = docsTypeOf(schema), docsFields(schema)
		}
		all = append(all, b)
	}
	return all
}

func docsFields(s *huma.Schema) (all []docsField) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		all = append(all, docsField{name, "", p.Description, docsTypeOf(p), slices.Contains(s.Required, name), docsLimits(p)})
	}
	return all
}

func docsTypeOf(s *huma.Schema) docsType {
	switch {
	case s == nil:
		return docsType{}
	case s.Ref != "":
		return docsType{Link: s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]}
	case s.Type == huma.TypeArray && s.Items != nil:
		t := docsTypeOf(s.Items)
		t.Before = "list of " + t.Before
		return t
	case s.Type == huma.TypeObject:
		if values, ok := s.AdditionalProperties.(*huma.Schema); ok {
			t := docsTypeOf(values)
			t.Before = "object with values " + t.Before
			return t
		}
	}
	return docsType{Before: s.Type, After: map[bool]string{true: " (" + s.Format + ")"}[s.Format != ""]}
}

// docsLimits returns the values that a schema permits.
func docsLimits(s *huma.Schema) string {
	if s == nil {
		return ""
	}
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if len(s.Enum) > 0 {
		var values []string
		for _, v := range s.Enum {
			values = append(values, fmt.Sprint(v))
		}
		add("one of %s", strings.Join(values, ", "))
	}
	if s.Default != nil {
		add("default %v", s.Default)
	}
	if s.Minimum != nil {
		add("at least %.0f", *s.Minimum)
	}
	if s.Maximum != nil {
		add("at most %.0f", *s.Maximum)
	}
	if s.MaxLength != nil {
		add("at most %d characters", *s.MaxLength)
	}
	return strings.Join(all, "; ")
}
