package pyro

import (
	"github.com/pyro-mcp/pyro/internal/isolation"
	"github.com/pyro-mcp/pyro/internal/machine"
)

// Isolation is what stands between a machine and the host.
type Isolation string

// The levels, strongest first.
const (
	IsolationKVM    = Isolation(machine.KVM)    // a virtual machine on the processor's own virtualisation
	IsolationGVisor = Isolation(machine.GVisor) // a kernel in user space
	IsolationTCG    = Isolation(machine.TCG)    // a virtual machine on an emulated processor
	IsolationNone   = Isolation(machine.None)   // a process of the host: nothing isolates it
)

// IsolationAuto asks for the first of kvm, gvisor and tcg that has proved itself on the host. A result never has it.
const IsolationAuto = Isolation(isolation.Auto)

// Isolations are those that can be asked for.
var Isolations = []Isolation{IsolationAuto, IsolationKVM, IsolationGVisor, IsolationTCG}

// ExecutionMode says where a command ran.
type ExecutionMode string

// The modes.
const (
	Guest      ExecutionMode = "guest"       // in a machine
	HostCompat ExecutionMode = "host_compat" // on the host, as the user of pyro
)
