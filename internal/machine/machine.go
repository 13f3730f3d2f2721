// Package machine is the contract between the callers that use machines and the drivers that start
// machines.
//
// A driver starts a machine's agent and connects to it, and does nothing else. The agent
// (internal/agent) does everything inside a machine, and is the same for all drivers. Callers
// branch on a driver's [Features] and on the interfaces of a machine, never on the driver's name.
// Every driver passes the test suite in internal/machine/machinetest. docs/add-a-driver.md says how
// to write a driver.
//
// If callers need a property before a machine exists, it is a field of [Features]. If only some
// drivers offer an action on a running machine, it is an interface, such as [Saver]. Nothing is in
// both places.
package machine

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"github.com/pyro-mcp/pyro/internal/progress"
)

// Isolation is the boundary between a machine and the host. Every result names it.
type Isolation string

// These are the isolation levels, the strongest first.
const (
	KVM    Isolation = "kvm"    // a virtual machine
	GVisor Isolation = "gvisor" // a kernel in user space
	TCG    Isolation = "tcg"    // a virtual machine with an emulated processor
	None   Isolation = "none"   // a process on the host
)

// Auto requests the preferred driver among those that work on the host. It is not the level of any
// machine.
const Auto Isolation = "auto"

// Features are the properties that all machines of a driver have. The conformance suite checks each
// property, even if the driver lacks it.
type Features struct {
	// Isolated means that processes inside have the environment (Spec.Root) as their root and see
	// their own IDs and names. They can't access files and processes of the host. If Isolated is
	// false, Spec.Root is empty.
	Isolated bool
	// OwnKernel means that the machine has its own kernel, which answers the system calls of its
	// processes. The host's kernel does not.
	OwnKernel bool
	// Prepares means that the first start on an environment makes files that later starts use.
	// Driver.Ready reports these files, and Driver.Invalidate removes them.
	Prepares bool
	// BlockDisks means that Spec.Storage uses Block (disk images). Otherwise it uses Tree
	// (folders).
	BlockDisks bool
	// MemorySnapshot means that a new machine starts from the memory of a machine that was booted
	// earlier.
	MemorySnapshot bool
	// Limits means that VCPUs, MemMiB and the number of processes are enforced.
	Limits bool
	// OOMKiller means that the kernel kills a process inside if memory is exhausted. Otherwise the
	// machine ends with ErrOutOfMemory. This feature has no meaning without Limits.
	OOMKiller bool
	// Namespaces means that the agent survives if a user kills all processes inside and deletes all
	// files.
	Namespaces bool
	// SetUID means that a program with the setuid bit runs as the program's owner.
	SetUID bool
	// Network means that a machine can have a link to a network. Without Spec.Network the machine
	// has only loopback.
	Network bool
	// Containers means that processes inside can make user, PID and mount namespaces and change
	// their root.
	Containers bool
}

// ErrOutOfMemory is the reason if a machine ended because it used more memory than Spec.MemMiB. See
// [Features].OOMKiller. Errors wrap it.
var ErrOutOfMemory = errors.New("the machine exceeded its memory, and the host's kernel killed it")

// Driver starts machines of one isolation level. It is safe for concurrent use, even by many
// processes at the same time.
type Driver interface {
	// Isolation is the isolation level of the driver's machines.
	Isolation() Isolation
	// Features are the properties of the driver's machines on this host.
	Features() Features
	// Prove starts a machine to check that this host can run one. If an earlier success is
	// recorded, Prove does not start a machine. The error contains the reason and has a hint.
	// Idempotent.
	Prove(ctx context.Context, report progress.Func) error
	// Start starts a machine and returns when callers can dial the machine's link. The agent might
	// answer a little later. If ctx is cancelled during Start, nothing is left behind. After Start
	// returns, ctx has no effect. The caller MUST close the machine. A failed Start leaves no
	// process. It leaves no files in Spec.Dir that the caller can't remove.
	Start(ctx context.Context, spec Spec) (Machine, error)
	// Ready reports whether the next Start with this spec finds everything that it needs. Ready
	// uses Root, VCPUs, MemMiB and Storage of the spec, and whether there is a Network. It MUST
	// look at the disk each time, and it makes, boots and fetches nothing. If a file's metadata has
	// changed, Ready reads the file again. If Ready can find out without a try that this host can't
	// start such a machine, the error says why.
	Ready(ctx context.Context, spec Spec) (Readiness, error)
	// Invalidate removes the files that Start has made for such machines, and possibly files for
	// similar machines. The next Start makes them again. Fetched files and the result of Prove are
	// kept. Running machines continue to run. Idempotent.
	Invalidate(ctx context.Context, spec Spec) error
}

// These constants name parts on which the machines of several drivers depend, see [Readiness].
const (
	PartEnvironment = "the environment's image"
	PartAgent       = "the guest agent of this pyro"
)

// Readiness reports whether the files for a start of a machine exist.
type Readiness struct {
	// Missing is a sentence with the files that a start would first have to make, and the reason.
	// It is empty if nothing is missing. The start is then fast.
	Missing string
	// Damaged means that the file or image that Missing names exists, but its content has changed
	// since it was made.
	Damaged bool
	// Parts lists everything on which the machine's files depend. The key is a readable name, the
	// value is a digest or version.
	Parts map[string]string
}

// Machine is a running machine. It is safe for concurrent use. A machine can also have the
// interfaces [Pauser], [Saver], [Thawer], [Layerer], [Merger], [RootSaver] and [Processes].
type Machine interface {
	// Link is the byte stream to the agent, see internal/agent/link. It has no sessions, and it
	// does not end when one side stops using it. It has one user at a time. The machine closes the
	// link.
	Link() net.Conn
	// SharedBuffer is memory that the machine and its owner share to transfer the content of files,
	// see internal/agent/sharedbuffer. It is nil if the machine has no shared buffer. It has one
	// user at a time, and its size is constant. The machine closes the buffer.
	SharedBuffer() *os.File
	// Phases are the steps of the machine's start.
	Phases() []Phase
	// Limits is nil if VCPUs and MemMiB are enforced. Otherwise the error says why they are not.
	Limits() error
	// PID is the process on the host that runs the machine, or 0 if there is none.
	PID() int
	// Done is closed when the machine has ended, for any reason.
	Done() <-chan struct{}
	// Err returns the reason why the machine ended. It is nil before Done is closed, and after
	// Close has ended the machine.
	Err() error
	// Close ends the machine immediately and returns when all of its processes are gone.
	// Idempotent.
	Close() error
}

// Phase is one step of a start and its duration.
type Phase struct {
	Name     string
	Duration time.Duration
}
