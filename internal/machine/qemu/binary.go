package qemu

import (
	"context"
	"os"
	"os/exec"
	"runtime"

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/lazyregexp"
	"github.com/pyro-mcp/pyro/internal/machine/process"
)

// Binary is an installed QEMU.
type Binary struct {
	Path string
	ID   string // changes when the program is replaced
}

// FindBinary finds QEMU. It uses PYRO_QEMU if that is set, otherwise it searches PATH. It does not
// run QEMU.
func FindBinary() (Binary, error) {
	if runtime.GOARCH != "amd64" {
		return Binary{}, fault.New(fault.Unsupported, "find QEMU", runtime.GOARCH, "machines under QEMU need an x86-64 host")
	}
	name := os.Getenv("PYRO_QEMU")
	if name == "" {
		name = "qemu-system-x86_64"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return Binary{}, fault.New(fault.Unavailable, "find QEMU", name, "not installed").WithHint("sudo apt-get install qemu-system-x86")
	}
	id, err := disk.Identity(path)
	if err != nil {
		return Binary{}, fault.Wrap(err, "find QEMU", path)
	}
	return Binary{Path: path, ID: id}, nil
}

var versionLine = lazyregexp.New(`version (\d+\.\d+\.\d+)`)

// Version runs QEMU to get its version, for example 7.2.22.
func (b Binary) Version(ctx context.Context) (string, error) {
	return process.Version(ctx, "QEMU", b.Path, versionLine())
}
