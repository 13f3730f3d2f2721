package test

import "testing"

// sameForAll marks a test of what is the same whatever runs the machines: it is not run once more for each of the kinds.
func sameForAll(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: what runs the machines makes no difference")
	}
}
