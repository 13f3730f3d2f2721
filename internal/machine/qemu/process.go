package qemu

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/process"
)

// launch starts QEMU with arguments and inherited files. The first file has the descriptor
// process.FirstFD. launch tries the confinements in order until the host allows one. It makes a
// folder in dir and soon removes it.
func launch(accel machine.Isolation, binary string, args []string, files []*os.File, id, dir string) (*process.Process, error) {
	root, err := vanishedFolder(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	files = append(files[:len(files):len(files)], root)
	var refused []error
	rootFD := process.FirstFD + len(files) - 1
	for _, c := range confinements(accel, id, rootFD) {
		cmd := exec.Command(binary, append(args[:len(args):len(args)], c.args...)...)
		cmd.ExtraFiles = files
		cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
		cmd.Dir = "/"
		cmd.SysProcAttr = c.attr
		var p *process.Process
		if c.empty {
			p, err = process.StartEmptied("QEMU", cmd, rootFD)
		} else {
			p, err = process.Start("QEMU", cmd)
		}
		if err == nil {
			return p, nil
		}
		refused = append(refused, err)
		if !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EACCES) {
			break
		}
	}
	return nil, errors.Join(refused...)
}
