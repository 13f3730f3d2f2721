//go:build !amd64

package filter

import "gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"

// programs and goferPrograms are empty on other architectures, so gVisor compiles the filters at
// each start.
var programs, goferPrograms []precompiledseccomp.Program
