//go:build !machine

// The test of this file needs no machine, so it does not run again with the tests of machines.

package test

import "testing"

// TestPythonUnits runs the Python tests that need no machine. They use a fake pyro that misbehaves.
func TestPythonUnits(t *testing.T) {
	unittest(t, "tests")
}
