//go:build !amd64

package filter

import "gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"

// programs is empty where nothing could generate it: gVisor compiles the filter at each start.
var programs []precompiledseccomp.Program
