package pyro

import (
	"github.com/pyro-mcp/pyro/internal/machine"
)

// Isolation is a level of isolation between a machine and the host.
type Isolation string

// The levels, strongest first.
const (
	IsolationKVM    = Isolation(machine.KVM)    // a virtual machine with hardware virtualization
	IsolationGVisor = Isolation(machine.GVisor) // gVisor's kernel in user space
	IsolationTCG    = Isolation(machine.TCG)    // a virtual machine on an emulated processor
	IsolationNone   = Isolation(machine.None)   // a process of the host, without isolation
)

// IsolationAuto requests the first of kvm, gvisor and tcg that works on the host. Results never
// contain it.
const IsolationAuto = Isolation(machine.Auto)

// Isolations are the levels that requests can name.
var Isolations = []Isolation{IsolationAuto, IsolationKVM, IsolationGVisor, IsolationTCG}

// ExecutionMode is the place of a command's execution: in a machine or on the host.
type ExecutionMode string

// The modes.
const (
	Guest      ExecutionMode = "guest"       // in a machine
	HostCompat ExecutionMode = "host_compat" // the command runs on the host, as the user who runs pyro
)
