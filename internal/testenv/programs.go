package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// RunWithPrograms is the body of TestMain in packages whose tests run commands with host_compat. It
// builds pyro and the guest agent, disables all other drivers, runs the tests and returns their
// exit code.
func RunWithPrograms(m *testing.M) int {
	dir, err := os.MkdirTemp("", "pyro-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	const module = "github.com/pyro-mcp/pyro/cmd/"
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", dir, module+"pyro", module+"pyro-guest")
	build.Env, build.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build the programs under test:", err)
		return 1
	}
	for name, value := range map[string]string{
		"PYRO_PROGRAM": filepath.Join(dir, "pyro"),
		"PYRO_GUEST":   filepath.Join(dir, "pyro-guest"),
		"PYRO_QEMU":    "no-such-qemu",
		"PYRO_RUNSC":   "/nonexistent",
	} {
		os.Setenv(name, value)
	}
	return m.Run()
}
