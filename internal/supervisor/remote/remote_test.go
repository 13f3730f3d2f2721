package remote

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestMain also runs the programs that the tests start: a supervisor with a given behaviour, or a
// process of another user.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 2 && os.Args[1] == Command:
		os.Exit(runSupervisor())
	case os.Getenv(strangerEnv) != "":
		os.Exit(runStranger(os.Getenv(strangerEnv)))
	}
	os.Setenv("GORACE", testenv.RaceOptions())
	goleak.VerifyTestMain(m)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
