package web

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write src/api/schema.ts")

// TestSchema checks that the types of the page are generated from docs/openapi.json.
func TestSchema(t *testing.T) {
	made, file := filepath.Join(t.TempDir(), "schema.ts"), filepath.Join("src", "api", "schema.ts")
	run(t, "openapi-typescript", "../docs/openapi.json", "--default-non-nullable", "false", "--output", made)
	want, err := os.ReadFile(made)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is out of date (%v): run make generate", file, err)
	}
}
