package serve

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
)

var update = flag.Bool("update", false, "write the OpenAPI document and the Go client")

// published returns the OpenAPI document without /v1/capsules, and without the version of this
// build.
func published(w *world) *huma.OpenAPI {
	doc := *w.server.OpenAPI()
	info := *doc.Info
	info.Version = "v1"
	info.Description += " /v1/capsules is another spelling of /v1/sandboxes."
	doc.Info = &info
	doc.Paths = maps.Clone(doc.Paths)
	maps.DeleteFunc(doc.Paths, func(path string, _ *huma.PathItem) bool { return strings.HasPrefix(path, "/v1/capsules") })
	return &doc
}

// document is the part of a document that the tests change.
type document map[string]any

// newDocument parses a document and removes the schemas that only /v1/capsules uses.
func newDocument(t *testing.T, text []byte) document {
	t.Helper()
	var doc document
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	schemas := doc["components"].(map[string]any)["schemas"].(map[string]any)
	maps.DeleteFunc(schemas, func(name string, _ any) bool { return strings.HasPrefix(name, "Capsules-") })
	return doc
}

// joinErrors replaces the errors of each operation by one default response. Otherwise the generated
// code would have a field for each error of each operation.
func (doc document) joinErrors() {
	for _, item := range doc["paths"].(map[string]any) {
		for _, o := range item.(map[string]any) {
			operation, ok := o.(map[string]any)
			if !ok {
				continue
			}
			responses := operation["responses"].(map[string]any)
			for _, status := range slices.Sorted(maps.Keys(responses)) {
				if r := responses[status]; status >= "400" && status < "600" { // they differ only in their description
					delete(responses, status)
					responses["default"] = r
				}
			}
		}
	}
}

// indented returns the text of a document.
func (doc document) indented(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false)
	to.SetIndent("", " ")
	if err := to.Encode(doc); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// same compares the content of a file with want. With -update, it writes the file.
func same(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is out of date (%v): run make generate", path, err)
	}
}

// TestOpenAPI checks that docs/openapi.json is the document of the server.
func TestOpenAPI(t *testing.T) {
	doc := published(newWorld(t))
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Errorf("got OpenAPI %s, want 3.1", doc.OpenAPI)
	}
	same(t, filepath.Join("..", "..", "docs", "openapi.json"), newDocument(t, text).indented(t))
}

// TestGoClient checks that package client is generated from the document. The generator supports
// OpenAPI 3.0.
func TestGoClient(t *testing.T) {
	text, err := published(newWorld(t)).Downgrade()
	if err != nil {
		t.Fatal(err)
	}
	slim := newDocument(t, text)
	slim.joinErrors()
	spec := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(spec, slim.indented(t), 0o600); err != nil {
		t.Fatal(err)
	}
	tools, err := filepath.Abs(filepath.Join("..", "..", "tools", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "tool", "-modfile="+tools, "oapi-codegen", "-config", filepath.Join("..", "..", "client", "oapi-codegen.yaml"), spec)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	same(t, filepath.Join("..", "..", "client", "client.gen.go"), out.Bytes())
}
