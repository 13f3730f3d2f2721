package filter

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRefuseMetadata installs the filter in another process, because it can't be removed.
func TestRefuseMetadata(t *testing.T) {
	const inside = "PYRO_TEST_REFUSE"
	if os.Getenv(inside) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestRefuseMetadata$")
		cmd.Env = append(os.Environ(), inside+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	change := map[string]func() error{
		"mode":  func() error { return unix.Fchmod(int(file.Fd()), 0o600) },
		"times": func() error { return unix.Futimes(int(file.Fd()), make([]unix.Timeval, 2)) },
	}
	for name, call := range change {
		if err := call(); err != nil {
			t.Errorf("%s, before: %v", name, err)
		}
	}
	if err := RefuseMetadata(); err != nil {
		t.Fatal(err)
	}
	for name, call := range change {
		if err := call(); !errors.Is(err, unix.EPERM) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := file.WriteString("text"); err != nil {
		t.Error(err)
	}
}
