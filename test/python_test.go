//go:build machine

package test

import (
	"path/filepath"
	"testing"
)

// TestPythonMachines runs the tests of the Python package that use bin/pyro and real machines.
func TestPythonMachines(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	program, err := filepath.Abs("../bin/pyro")
	if err != nil {
		t.Fatal(err)
	}
	p := workspaces(t)
	unittest(t, "tests/machines", "PYRO_PROGRAM="+program, "PYRO_STATE_DIR="+p.state, "TMPDIR="+p.temp)
}
