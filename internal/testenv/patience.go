package testenv

import (
	"os"
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
