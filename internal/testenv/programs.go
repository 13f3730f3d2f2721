package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// programsVariable is an environment variable. If it is set, it is the folder that "make programs"
// built, and tests do not build these programs again.
const programsVariable = "PYRO_TEST_PROGRAMS"

// Programs returns a folder with some of the programs pyro, pyro-guest and pty-mcp. The race
// detector does not watch them. The folder has no pyro-runsc, so that pyro does not find it there.
// The caller calls remove when it no longer needs the programs.
func Programs(names ...string) (dir string, remove func(), err error) {
	if dir := os.Getenv(programsVariable); dir != "" {
		return dir, func() {}, nil
	}
	if dir, err = os.MkdirTemp("", "pyro-test-"); err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", dir+"/")
	for _, name := range names {
		build.Args = append(build.Args, "github.com/pyro-mcp/pyro/cmd/"+name)
	}
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		remove()
		return "", nil, fmt.Errorf("build the programs under test: %w\n%s", err, out)
	}
	return dir, remove, nil
}

// PublicProgram copies one of these programs to the folder dir, and returns the path of the copy.
// Other users can run the copy. They possibly cannot read the folder of Programs.
func PublicProgram(dir, name string) (string, error) {
	from, remove, err := Programs(name)
	if err != nil {
		return "", err
	}
	defer remove()
	content, err := os.ReadFile(filepath.Join(from, name))
	if err != nil {
		return "", err
	}
	to := filepath.Join(dir, name)
	return to, WriteProgram(to, content)
}

// WriteProgram writes a program that the test runs next. No process is forked while the file is
// open for writing. Such a process would inherit the descriptor, and until its exec, starting the
// program would fail with ETXTBSY (https://go.dev/issue/22315).
func WriteProgram(path string, content []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, content, 0o755)
}

// RunWithPrograms is the body of TestMain in packages whose tests run commands with host_compat. It
// provides pyro and the guest agent, disables all other drivers, runs the tests and returns their
// exit code.
func RunWithPrograms(m *testing.M) int {
	dir, remove, err := Programs("pyro", "pyro-guest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer remove()
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
