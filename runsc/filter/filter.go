// Package filter gives the sentry and its gofer their seccomp filters compiled ahead of time: gVisor compiles them at each start, which takes a tenth of the
// start.
//
// The programs are what gVisor's own compiler makes of its own rules (programs_*.go, by go generate); the test compiles them again and compares. Where there is
// none for an architecture or for other options, gVisor compiles as ever.
package filter

import (
	_ "unsafe" // for linkname

	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	"gvisor.dev/gvisor/runsc/boot/filter"
	gofer "gvisor.dev/gvisor/runsc/fsgofer/filter"
)

//go:generate go run ./generate

// The tables of compiled programs are gVisor's, which it fills at build time in its own builds and leaves empty as a Go module.

//go:linkname registered gvisor.dev/gvisor/runsc/boot/filter.precompiledPrograms
var registered map[string]precompiledseccomp.Program

//go:linkname registeredForGofer gvisor.dev/gvisor/runsc/fsgofer/filter.precompiledPrograms
var registeredForGofer map[string]precompiledseccomp.Program

// Register makes the sentry's programs known to gVisor.
func Register() {
	filter.GetPrecompiled("") // has the table made, once
	for _, p := range programs {
		registered[p.Name] = p
	}
}

// RegisterForGofer makes the gofer's programs known to gVisor.
func RegisterForGofer() {
	gofer.GetPrecompiled("")
	for _, p := range goferPrograms {
		registeredForGofer[p.Name] = p
	}
}
