package cli

import (
	"path/filepath"
	"testing"
)

// TestMetricsToken checks that the first start makes the token and its folder, and that later
// starts read the token.
func TestMetricsToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "folder", "token")
	first, err := metricsToken(file)
	if err != nil || first.Reveal() == "" {
		t.Fatalf("got %q, %v", first.Reveal(), err)
	}
	if again, err := metricsToken(file); err != nil || again.Reveal() != first.Reveal() {
		t.Errorf("got %q and then %q, %v", first.Reveal(), again.Reveal(), err)
	}
}
