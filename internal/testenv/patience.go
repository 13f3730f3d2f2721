package testenv

import (
	"os"
	"testing"
	"time"
)

const patienceVariable = "PYRO_TEST_PATIENCE"

// Patience is the time that tests wait for an event before they report that it does not come. No
// test may fail because the host is slow, so it is much longer than any event takes. The variable
// PYRO_TEST_PATIENCE changes it, for example to "10m".
var Patience = patience(os.Getenv(patienceVariable))

func patience(text string) time.Duration {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d
	}
	return 3 * time.Minute
}

// Eventually waits until met returns true. After Patience it fails the test, and prints what, a
// sentence that should have become true. Eventually calls met in intervals of an eighth of the time
// since the start, at least 1 ms and at most 100 ms.
func Eventually(t testing.TB, what string, met func() bool) {
	t.Helper()
	for began := time.Now(); !met(); {
		waited := time.Since(began)
		if waited > Patience {
			t.Fatalf("not so after %v: %s", Patience, what)
		}
		time.Sleep(min(max(waited/8, time.Millisecond), 100*time.Millisecond))
	}
}
