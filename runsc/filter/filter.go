// Package filter provides compiled seccomp filters for the sentry and its gofer. gVisor would
// compile the filters at each start, which takes a tenth of the start time.
//
// gVisor's compiler made the programs in programs_*.go from gVisor's rules and Gofer (go generate).
// The test compiles the rules again and compares the programs. If there is no program for an
// architecture or for some options, gVisor compiles one.
package filter

import (
	_ "unsafe" // for linkname

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/seccomp"
	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	"gvisor.dev/gvisor/runsc/boot/filter"
	gofer "gvisor.dev/gvisor/runsc/fsgofer/filter"
)

//go:generate go run ./generate

// registered is gVisor's table of compiled programs. gVisor's own builds fill the table, but in the
// Go module it is empty.

//go:linkname registered gvisor.dev/gvisor/runsc/boot/filter.precompiledPrograms
var registered map[string]precompiledseccomp.Program

//go:linkname registeredForGofer gvisor.dev/gvisor/runsc/fsgofer/filter.precompiledPrograms
var registeredForGofer map[string]precompiledseccomp.Program

// Register adds the sentry's programs to gVisor's table.
func Register() {
	filter.GetPrecompiled("") // the first call makes the table
	for _, p := range programs {
		registered[p.Name] = p
	}
}

// Gofer has the options of the gofer's filter. Beside the calls that gVisor needs, it allows hard
// links to open files, by /proc/self/fd.
var Gofer = gofer.Options{LisafsNeeded: true, ExtraRules: []seccomp.SyscallRules{
	seccomp.MakeSyscallRules(map[uintptr]seccomp.SyscallRule{unix.SYS_LINKAT: seccomp.PerArg{
		seccomp.NonNegativeFD{}, seccomp.AnyValue{}, seccomp.NonNegativeFD{}, seccomp.AnyValue{}, seccomp.EqualTo(unix.AT_SYMLINK_FOLLOW),
	}}),
}}

// InstallForGofer installs the gofer's filter. It can't be removed.
func InstallForGofer() error {
	registerForGofer()
	return gofer.Install(Gofer)
}

func registerForGofer() {
	gofer.GetPrecompiled("")
	for _, p := range goferPrograms {
		registeredForGofer[p.Name] = p
	}
}

// RefuseMetadata makes the system calls that change the mode or the times of an open file fail with
// EPERM. gVisor's own filter allows them. Volumes share files, and without root the sentry has the
// same user as the files. So a hostile sentry could change files of other volumes, although it can
// only read them.
func RefuseMetadata() error {
	program := seccomp.Program{
		RuleSets: []seccomp.RuleSet{{
			Rules:  seccomp.MakeSyscallRules(map[uintptr]seccomp.SyscallRule{unix.SYS_FCHMOD: seccomp.MatchAll{}, unix.SYS_UTIMENSAT: seccomp.MatchAll{}}),
			Action: seccomp.ReturnError.Code(uint16(unix.EPERM)),
		}},
		Options: seccomp.ProgramOptions{DefaultAction: seccomp.Allow},
	}
	return program.Install(nil)
}
