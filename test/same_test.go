package test

import (
	"os"
	"testing"
)

// emulated reports whether the tests use emulated machines. If so, they have already run under
// gVisor.
func emulated() bool { return os.Getenv("PYRO_ISOLATION") == "tcg" }

// sameForAll marks a test whose result barely depends on the isolation level. Emulated machines are
// slow, so the test does not use them.
func sameForAll(t *testing.T) {
	t.Helper()
	if emulated() {
		t.Skip("the isolation makes little difference")
	}
}

// skipUnlessAll marks a test that takes long. `make test` omits it, and `make test-all` runs it.
func skipUnlessAll(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("make test-all runs this test")
	}
}

// killed returns which processes a test kills during an operation. For emulated machines and in
// `make test` it returns only one process. The client behaves in the same way for every isolation
// level, so that is alternately the machine and the supervisor.
func killed(operation int) []string {
	if emulated() || testing.Short() {
		return []string{[]string{"machine", "supervisor"}[operation%2]}
	}
	return []string{"client", "supervisor", "machine"}
}
