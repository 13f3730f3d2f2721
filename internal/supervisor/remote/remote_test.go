package remote

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain has this program be what tests start: a supervisor that does as it is told, or another user.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 2 && os.Args[1] == Command:
		os.Exit(beSupervisor())
	case os.Getenv(strangerEnv) != "":
		os.Exit(beStranger(os.Getenv(strangerEnv)))
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")) // what is started need not wait a second for others' races at its end
	goleak.VerifyTestMain(m)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until something is so.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !so(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(fmt.Sprint(what, " within 10 s: no"))
		}
	}
}
