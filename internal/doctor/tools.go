package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/pyro-mcp/pyro/internal/machine/gvisor"
	"github.com/pyro-mcp/pyro/internal/machine/gvisor/cgroup"
	"github.com/pyro-mcp/pyro/internal/machine/qemu"
)

// tools are the programs that build environments and kernels, with the Debian packages that contain
// them.
var tools = []struct{ program, pkg string }{
	{"mmdebstrap", "mmdebstrap"},
	{"apt-get", "apt"},
	{"dpkg-deb", "dpkg"},
}

// builders checks for these tools. It only warns, because existing environments don't need them.
func builders() Check {
	c := Check{Name: "tools", Status: OK}
	var found, missing, packages []string
	wanted := tools
	if os.Getuid() != 0 {
		wanted = append(wanted[:len(wanted):len(wanted)], struct{ program, pkg string }{"newuidmap", "uidmap"})
	}
	for _, t := range wanted {
		if have(t.program) {
			found = append(found, t.program)
			continue
		}
		missing = append(missing, t.program)
		if len(packages) == 0 || packages[len(packages)-1] != t.pkg {
			packages = append(packages, t.pkg)
		}
	}
	c.Detail = strings.Join(found, ", ")
	if len(missing) > 0 {
		c.Status = Warn
		c.Detail = "not installed, and needed to make environments and templates: " + strings.Join(missing, ", ")
		c.Hint = "sudo apt-get install " + strings.Join(packages, " ")
	}
	return c
}

// have reports whether a program is installed. It also searches folders that are not in the PATH of
// ordinary users on Debian.
func have(program string) bool {
	for _, name := range []string{program, "/usr/sbin/" + program, "/sbin/" + program} {
		if _, err := exec.LookPath(name); err == nil {
			return true
		}
	}
	return false
}

func qemuProgram(ctx context.Context) Check {
	binary, err := qemu.FindBinary()
	if err != nil {
		return failed("qemu", Warn, err)
	}
	version, err := binary.Version(ctx)
	if err != nil {
		return failed("qemu", Warn, err)
	}
	return Check{Name: "qemu", Status: OK, Detail: fmt.Sprintf("%s, version %s", binary.Path, version)}
}

func gvisorProgram(ctx context.Context, program string) Check {
	const name = "pyro_runsc"
	helper, err := gvisor.FindHelper(program)
	if err != nil {
		return failed(name, Warn, err)
	}
	version, err := helper.Version(ctx)
	if err != nil {
		return failed(name, Warn, err)
	}
	return Check{Name: name, Status: OK, Detail: fmt.Sprintf("%s, version %s", helper.Path, version)}
}

// cgroups checks whether pyro can limit machines under gVisor. QEMU needs no cgroups.
func cgroups() Check {
	const name = "cgroups"
	parent, err := cgroup.Find()
	if err != nil {
		return failed(name, Warn, fmt.Errorf("machines under gvisor can't be limited: %w", err))
	}
	if missing := parent.Missing(); len(missing) > 0 {
		return Check{Name: name, Status: Warn, Detail: "machines under gvisor are limited, but not by " + strings.Join(missing, " and ")}
	}
	return Check{Name: name, Status: OK, Detail: "machines under gvisor can be limited"}
}
