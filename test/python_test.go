//go:build machine

package test

import (
	"path/filepath"
	"testing"
)

// TestPythonMachines has the Python package do real work with bin/pyro.
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
