package test

import "testing"

// sameForAll marks a test of what is the same, or nearly so, whatever runs the machines: where there is little time it is not run once more for another kind.
func sameForAll(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: what runs the machines makes little difference")
	}
}

// killed are those who are killed in the midst of an operation. What a client does is the same whatever runs the machines: where there is little time it is one of the others,
// by turns.
func killed(operation int) []string {
	if testing.Short() {
		return []string{[]string{"machine", "supervisor"}[operation%2]}
	}
	return []string{"client", "supervisor", "machine"}
}
