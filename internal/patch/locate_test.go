package patch

import (
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// TestHunkSearchIsBounded checks that the search for a hunk is limited. It uses a
// file of equal lines, and hunks that almost match everywhere.
func TestHunkSearchIsBounded(t *testing.T) {
	text := "--- a/f\n+++ b/f\n" + strings.Repeat("@@ -9000,2500 +9000,2500 @@\n"+strings.Repeat(" x\n", 2498)+"-y\n+z\n x\n", 20)
	sections, err := parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	steps := 1 << 20
	_, _, err = patchText("f", []byte(strings.Repeat("x\n", 5000)), sections[0].hunks, false, &steps)
	if fault.KindOf(err) != fault.Exhausted || steps < -3000 {
		t.Errorf("%v, %d steps left", err, steps)
	}
	steps = maxSteps
	if _, _, err = patchText("f", []byte(strings.Repeat("x\n", 5000)), sections[0].hunks, false, &steps); fault.KindOf(err) != fault.Precondition {
		t.Errorf("with more steps: %v", err)
	}
}
