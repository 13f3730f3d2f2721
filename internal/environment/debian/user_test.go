package debian

import (
	"os"
	"path/filepath"
	"testing"
)

func TestHasRange(t *testing.T) {
	file := filepath.Join(t.TempDir(), "subuid")
	if err := hasRange(file, "pyro", "999"); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
	for text, want := range map[string]bool{
		"":                                   false,
		"pyro\n":                             false,
		"pyromaniac:100000:65536\n":          false,
		"me:100000:65536\npyro:165536:65536": true,
		"999:100000:65536\n":                 true,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := hasRange(file, "pyro", "999"); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}
