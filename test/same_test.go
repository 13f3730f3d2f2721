package test

import "testing"

// sameForAll marks a test whose result barely depends on the isolation level. With -short, the test
// is skipped.
func sameForAll(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: the isolation makes little difference")
	}
}

// killed returns which processes a test kills during an operation. With -short it returns only one
// process. The client behaves in the same way for every isolation level, so that is alternately the
// machine and the supervisor.
func killed(operation int) []string {
	if testing.Short() {
		return []string{[]string{"machine", "supervisor"}[operation%2]}
	}
	return []string{"client", "supervisor", "machine"}
}
