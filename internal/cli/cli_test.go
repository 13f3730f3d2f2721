package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// programs contains the paths of built programs, which the race detector does not watch.
var programs struct{ pyro, guest string }

func TestMain(m *testing.M) {
	// testscript runs this test binary again under the name pyro. In this case nothing must be
	// built.
	if filepath.Base(os.Args[0]) == "pyro" {
		testscript.Main(m, commands)
		return
	}
	dir, remove, err := testenv.Programs("pyro", "pyro-guest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	programs.pyro, programs.guest = filepath.Join(dir, "pyro"), filepath.Join(dir, "pyro-guest")
	testscript.Main(cleanUp{m, remove}, commands)
}

var commands = map[string]func(){"pyro": func() { os.Exit(Main(os.Args[1:])) }}

// cleanUp runs the tests, then removes the built programs. A deferred call in TestMain would not
// run, because testscript.Main does not return.
type cleanUp struct {
	tests  *testing.M
	remove func()
}

func (c cleanUp) Run() int {
	defer c.remove()
	return c.tests.Run()
}

// TestScripts runs the scripts in testdata/script. The scripts specify the behavior of the command
// line. With -short, they run the built program. Otherwise they run this test program, so that the
// race detector can watch it. With the race detector, the scripts need twice the processor time.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("PYRO_CACHE_DIR", filepath.Join(e.WorkDir, "cache"))
			e.Setenv("PYRO_STATE_DIR", filepath.Join(e.WorkDir, "state"))
			e.Setenv("PYRO_GUEST", programs.guest)
			e.Setenv("PYRO_QEMU", "no-such-qemu") // so that no test starts a real machine
			e.Setenv("PYRO_PROGRAM", programs.pyro)
			e.Setenv("HOME", e.WorkDir)
			if testing.Short() {
				e.Setenv("PATH", filepath.Dir(programs.pyro)+":"+e.Getenv("PATH"))
			}
			e.Setenv("GORACE", testenv.RaceOptions())
			e.Defer(func() { deleteWorkspaces(filepath.Join(e.WorkDir, "state")) }) // needed if the script has failed
			return nil
		},
	})
}

// deleteWorkspaces deletes the workspaces that a script has left, so that none of their processes
// remain.
func deleteWorkspaces(state string) {
	folders, _ := filepath.Glob(filepath.Join(state, "workspaces", "*"))
	for _, folder := range folders {
		cmd := exec.Command(programs.pyro, "workspace", "delete", filepath.Base(folder))
		cmd.Env = append(os.Environ(), "PYRO_STATE_DIR="+state, "PYRO_GUEST="+programs.guest)
		cmd.Run()
	}
}
