package test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// unittest runs the tests in a folder of the Python package. The folder must contain at least one
// test.
func unittest(t *testing.T, folder string, env ...string) {
	t.Helper()
	source, err := filepath.Abs("../sdk/python/src")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "python3", "-B", "-m", "unittest", "discover", "-v", "-s", folder)
	cmd.Dir = "../sdk/python"
	cmd.Env = append(append(os.Environ(), "PYTHONPATH="+source), env...)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil || !regexp.MustCompile(`\nRan [1-9][0-9]* tests? in .*\n\nOK\n$`).Match(out) {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestPythonUnits runs the Python tests that need no machine. They use a fake pyro that misbehaves.
func TestPythonUnits(t *testing.T) {
	sameForAll(t)
	unittest(t, "tests")
}
