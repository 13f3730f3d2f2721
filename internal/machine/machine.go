// Package machine is the contract between those who use a machine and the drivers that start one.
//
// A driver says how a machine's agent is started and reached, and nothing else: what happens inside a machine is the agent's business
// (internal/agent), written once for every driver. Callers branch on a driver's [Features], never on which driver it is. Every driver passes the suite
// in internal/machine/machinetest.
package machine

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/pyro-mcp/pyro/internal/progress"
)

// Isolation is what stands between a machine and the host. It is reported with every result.
type Isolation string

// The levels, strongest first.
const (
	KVM    Isolation = "kvm"    // a virtual machine on the processor's own virtualisation
	GVisor Isolation = "gvisor" // a kernel in user space that answers the machine's system calls
	TCG    Isolation = "tcg"    // a virtual machine on an emulated processor
	None   Isolation = "none"   // a process of the host: nothing isolates it
)

// Features say what the machines of a driver can do. The conformance suite checks that they are true.
type Features struct {
	Isolated       bool // what runs inside can't reach the host's files and processes
	OwnKernel      bool // the machine runs a Linux kernel of its own, with all that belongs to one
	BlockDisks     bool // storage is block images, else directory trees
	MemorySnapshot bool // machines start from a saved running machine
	SavedState     bool // running machines can be written down and gone on with: they are Savers and Pausers, and Spec.Saved is taken
	Limits         bool // VCPUs and MemMiB bind, and processes are bounded
	OOMKiller      bool // where memory is short a process inside is killed; else the whole machine ends, with ErrOutOfMemory
	Namespaces     bool // killing every process and deleting every file inside leaves the agent working
	SetUID         bool // a program with the setuid bit runs as its owner
	Network        bool // a machine can have a link to a network, and has none otherwise
	Containers     bool // containers can be made inside: user, PID and mount namespaces, another root
}

// ErrOutOfMemory is why a machine ended that took more memory than it was given, see [Features].OOMKiller. It is wrapped.
var ErrOutOfMemory = errors.New("the machine took more memory than it has, and the host's kernel ended it")

// Root is the root file system that a machine starts on. The driver never changes it.
type Root struct {
	Digest string // of the content, "sha256:…"
	Image  string // path of a raw ext4 image
}

// Spec says what machine to start.
type Spec struct {
	ID     string // unique on this host; letters, digits and dashes, at most 63
	Dir    string // the machine's own folder, which exists and is empty: the driver writes nowhere else, its shared templates apart
	Root   Root
	VCPUs  int // at least 1
	MemMiB int // at least 128

	// Storage is what of the machine outlives it. nil: nothing does, and it has no volume.
	Storage *Storage

	// Network is the machine's link to others. nil: it has none but its own loopback. Only drivers with [Features].Network take one.
	Network *Network

	// Saved is a folder that Save of a machine wrote, with the same Root, VCPUs, MemMiB, presence of Network and shape of Storage: the machine goes on where that one stood,
	// with its processes, terminals and memory. Empty: it starts anew. Its disks MUST be as they were then, or layers over that (of TreeStorage the Folder; its
	// Root is in what was saved), and it is renewed as after any start. Until its owner says so nothing runs in it but the agent: see Waker.
	// Many machines may be started from one folder, also at once; it is only read, and stays when they end. What is not what Save wrote is refused with kind
	// Corrupt, what is of another shape, pyro or host with Precondition. Only drivers with [Features].SavedState take one.
	Saved string

	// Progress is told what is made on first use, a template for one. It may be nil.
	Progress progress.Func
}

// Network is the link of a machine: one interface, eth0, alone with a gateway. Where the machine has a kernel of its own the interface is brought up, and given what
// is said here, by Renew (internal/agent/client); else by the driver.
type Network struct {
	Link       *os.File         // the far end of [NewLink], which the driver passes on; the caller closes it once Start has returned
	MAC        net.HardwareAddr // of the machine
	GatewayMAC net.HardwareAddr
	Address    netip.Prefix // of the machine, with the network that it is in; IPv4
	Gateway    netip.Addr
	Address6   netip.Prefix
	Gateway6   netip.Addr
	MTU        int // bytes of an IP packet
}

// Storage is what of a machine outlives it: what it changes of its root, and its volume, a file system that the agent mounts when it is asked to (see Mount in
// proto/agent/v1). Drivers with [Features].BlockDisks take Block, all others Tree; the other is nil. The files are the caller's, who sees to it that no two
// machines have them.
type Storage struct {
	Block *BlockStorage
	Tree  *TreeStorage
}

// FreshRoot tells whether a machine will begin on the environment as it is, which it does without storage too.
func (s *Storage) FreshRoot() bool {
	switch {
	case s == nil:
		return true
	case s.Tree != nil:
		return s.Tree.Root == ""
	case len(s.Block.Root) > 1:
		return false
	case len(s.Block.Root) == 1:
		_, err := os.Stat(s.Block.Root[0])
		return err != nil
	}
	return true
}

// BlockStorage is storage in images. Layers are qcow2 without a backing file in their header: what a layer lies on is said here alone. All but the last are
// never written. What the machine flushes is flushed on the host.
type BlockStorage struct {
	Root   []string // layers over the image of the root, the lowest first; the machine writes to the last. Where that is the only one and missing, the driver makes it
	Volume []string // the lowest is a raw ext4 image, layers over it, of which the machine writes to the last
}

// TreeStorage is storage in a folder.
type TreeStorage struct {
	Folder string // the volume
	Root   string // what an earlier machine had changed of its root, as KeepRoot wrote it; empty: nothing
	Bytes  int64  // that the files of the volume may take; 0: DefaultVolumeBytes
}

// DefaultVolumeBytes is the size of a volume that is given no other.
const DefaultVolumeBytes = 16 << 30

// Layerer is a running machine whose images can be given new layers. A driver with [Features].BlockDisks has it.
type Layerer interface {
	// AddLayers has the machine write to new, empty layers over those that it wrote to, which never change again. root or volume may be empty: then that
	// disk stays as it is. Both change at once or, with an error, neither. What the layers below hold is consistent if the file systems were frozen.
	AddLayers(ctx context.Context, root, volume string) error
}

// Merger is a running machine whose images can be made fewer. A driver with [Features].BlockDisks has it.
type Merger interface {
	// Merge has the layer that the machine writes to hold all that is in those between it and the lowest ones, of which so many are kept: then nobody needs
	// those between any more. It takes as long as copying that, and the machine goes on meanwhile. When it is cancelled all layers are still needed.
	Merge(ctx context.Context, disk Disk, keep int) error
}

// Disk is one of the two of a machine.
type Disk string

// The disks.
const (
	RootDisk   Disk = "root"
	VolumeDisk Disk = "volume"
)

// Pauser is a running machine that can be stopped for a moment. Idempotent both. A paused machine's agent does not answer.
type Pauser interface {
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
}

// Saver is a running machine that can be written down, to go on from there later, more than once. See Spec.Saved. A driver with [Features].SavedState has it.
type Saver interface {
	// Save writes the machine's memory and the state of its devices to dir, an empty folder. The machine stands still for that.
	//
	// With nil what was written is whole and flushed, the machine stands still, and its disks hold what it wrote, flushed too: its owner closes it, or gives it new
	// layers if it has disks that are kept (Layerer), and has it go on (Pauser). With an error it goes on as if nothing had been, and what is in dir is of no use.
	// Of a machine without Storage what it changed of its root is saved too.
	Save(ctx context.Context, dir string) error
}

// Waker is a machine that may have gone on from Spec.Saved, in which nothing but the agent runs before it is woken: no process takes a step, and none changes a file. The
// agent can be asked for all meanwhile but to start something. A driver with [Features].SavedState has it unless its machines have a kernel of their own: of those the agent
// holds the processes, which were held when they were saved (Hold, Identity.Held and Thaw of internal/agent/client). It may be saved before it is woken, too, and who goes
// on is held again.
type Waker interface {
	// Wake has the processes run. Idempotent; of a machine that started anew it does nothing.
	Wake(ctx context.Context) error
}

// RootKeeper is a running machine that writes down what it changed of its root, for [TreeStorage].
type RootKeeper interface {
	// KeepRoot writes it to a file, which it replaces as a whole. Nothing should run in the machine meanwhile.
	KeepRoot(ctx context.Context, path string) error
}

// Processes is a running machine that is several processes of the host's.
type Processes interface {
	// PIDs are those that the driver started, PID's among them: they write to its storage, and what they and those below them compute is the machine's.
	PIDs() []int
}

// Phase is one step of a start, with the time it took.
type Phase struct {
	Name     string
	Duration time.Duration
}

// Driver starts machines of one isolation level. It is safe for concurrent use, in many processes at once.
type Driver interface {
	// Isolation is what its machines stand behind.
	Isolation() Isolation
	// Features are those of its machines.
	Features() Features
	// Prove tells whether machines can be started on this host, by having started one: now, or before with the verdict kept.
	// The error says why not, with a hint. Idempotent.
	Prove(ctx context.Context, report progress.Func) error
	// Start starts a machine and returns when its link is there to be dialled; the agent may answer a little later.
	// Cancelling ctx during Start leaves nothing behind; afterwards ctx has no say. The caller MUST Close the machine.
	// A failed Start leaves nothing running, and nothing in Spec.Dir that the caller can't remove.
	Start(ctx context.Context, spec Spec) (Machine, error)
	// Ready tells whether the next Start of such a machine finds made what it starts from. Of the spec what shapes a machine counts: Root, VCPUs, MemMiB, Storage,
	// and whether there is a Network. It MUST tell what is there now, whoever made it and whatever this driver has found before, and makes, boots and
	// fetches nothing. Content that has been touched is read. The error says why no such machine can be started on this host, as far as that is known
	// without trying.
	Ready(ctx context.Context, spec Spec) (Readiness, error)
	// Forget removes what Start has made for such machines once, so that the next makes it again; for others it may be the same. What was fetched stays, and
	// so does what was proved of the host. Machines that run go on. Idempotent.
	Forget(ctx context.Context, spec Spec) error
}

// The parts that machines of several drivers are made from.
const (
	PartEnvironment = "the environment's image"
	PartAgent       = "the guest agent of this pyro"
)

// Readiness tells what a start of a machine would find.
type Readiness struct {
	Missing string // the first thing that a start would have to make, and why, as a sentence; empty: nothing, it is fast
	Damaged bool   // that is there, but is not what was made any more
	// Parts are all that the machine's template or image depends on: for each, by a name that people understand, what tells one from another.
	Parts map[string]string
}

// Machine is one running machine. It is safe for concurrent use.
type Machine interface {
	// Link is the byte stream to the agent. It has no end of its own and no session: see internal/agent/link. One user at a time, and the machine
	// closes it, not its user.
	Link() net.Conn
	// Window is memory that the machine shares with its owner, for the content of files (internal/agent/window), or nil. One user at a time, and the
	// machine closes it. It keeps its size whatever the machine does.
	Window() *os.File
	// Phases are the steps of its start.
	Phases() []Phase
	// Limits is nil where VCPUs and MemMiB bind; else it says why they don't.
	Limits() error
	// PID is the process on the host that runs the machine, 0 where there is none.
	PID() int
	// Done is closed when the machine has ended, for whatever reason.
	Done() <-chan struct{}
	// Err says why the machine ended; nil before Done is closed, and after Close.
	Err() error
	// Close ends the machine at once, whatever runs in it, and returns when none of its processes is left. Idempotent.
	Close() error
}
