package secret

import (
	"encoding/base64"
	"strings"
	"testing"
)

func TestNameRedactor(t *testing.T) {
	const value = "Hunter2-Correct"
	r := NewNameRedactor(New(value))
	for name, want := range map[string]string{
		"hunter2-correct.example.com": Hidden + ".example.com", "hunter2-correc.example.com": "hunter2-correc.example.com",
		strings.ToLower(base64.RawURLEncoding.EncodeToString([]byte(value))) + ".test": Hidden + ".test",
	} {
		if got := r.Text(name); got != want {
			t.Errorf("%s: got %s", name, got)
		}
	}
}
