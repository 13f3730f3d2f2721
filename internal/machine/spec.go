package machine

import (
	"net"
	"net/netip"
	"os"

	"github.com/pyro-mcp/pyro/internal/progress"
)

// Spec describes the machine to start.
type Spec struct {
	// ID is unique on this host. It consists of at most 63 letters, digits and dashes.
	ID string
	// Dir is an empty folder for this machine. The driver writes only to this folder and to its
	// templates.
	Dir    string
	Root   Root
	VCPUs  int // at least 1
	MemMiB int // at least 128

	// Storage is the part of the machine that outlives the machine. If it is nil, nothing outlives
	// the machine, and there is no volume.
	Storage *Storage

	// Network is the machine's link to a network. If it is nil, the machine has only its own
	// loopback. It must be nil if the driver lacks [Features].Network.
	Network *Network

	// Saved is a folder that [Saver].Save of an earlier machine wrote. If it is empty, the machine
	// boots.
	//
	// The new machine resumes in the state of the saved machine, with its processes, terminals and
	// memory. These properties must be the same as for the saved machine: Root, VCPUs, MemMiB,
	// whether there is a Network, and the shape of Storage. The disks MUST have the content that
	// they had at the time of the save, or be layers over that content. TreeStorage.Root is
	// ignored, because the changes to the root are in the folder. Only the agent runs until the
	// owner thaws the machine, see [Thawer]. Before that the owner renews the machine, as after any
	// start.
	//
	// Several machines can start from one folder, even at the same time. The driver only reads the
	// folder. The caller can remove it after Start has returned. If the folder is damaged, Start
	// fails with kind Corrupt. If the shape, pyro or the host differs, Start fails with kind
	// Precondition.
	Saved string

	// Progress is called with the steps of work that only a first start does. It can be nil.
	Progress progress.Func
}

// Root is the root file system of a new machine. The driver never changes it.
type Root struct {
	Digest string // digest of the content, "sha256:…"
	Image  string // path of a raw ext4 image; drivers that need a folder use package rootfolder
}

// Network is a machine's link to a network. The machine has one interface, eth0, and the network
// has only a gateway. Either the driver configures the interface, or the agent configures it when
// the machine is renewed. See the abilities of an agent in docs/add-a-driver.md.
type Network struct {
	Link       *os.File         // the far end of [NewLink], for the machine's process; the caller closes it after Start
	MAC        net.HardwareAddr // MAC address of the machine
	GatewayMAC net.HardwareAddr
	Address    netip.Prefix // IPv4 address of the machine, with the prefix length of the network
	Gateway    netip.Addr
	Address6   netip.Prefix
	Gateway6   netip.Addr
	MTU        int // maximum size of an IP packet in bytes
}

// Storage is the part of a machine that outlives the machine: the changes to its root, and its
// volume. The volume is a file system that the agent mounts on request (Mount in proto/agent/v1).
// Drivers with [Features].BlockDisks get Block, all others get Tree. The other field is nil. The
// caller owns the files, and only one machine may use them at a time.
type Storage struct {
	Block *BlockStorage
	Tree  *TreeStorage
}

// FreshRoot reports whether a machine will start on an unchanged environment. This is always so for
// a machine without storage.
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

// BlockStorage is storage in disk images. Layers are qcow2 files. Their headers name no backing
// file: only the order in these lists says which layer is below which. The machine writes to the
// last layer of a list and only reads the others. When the machine flushes a disk, the host flushes
// the file.
type BlockStorage struct {
	// Root lists the layers over the image of the root, the lowest first. If the list has only one
	// layer and the file does not exist, the driver makes it.
	Root []string
	// Volume lists a raw ext4 image, then the layers over it.
	Volume []string
}

// TreeStorage is storage in a folder.
type TreeStorage struct {
	Folder string // Path of the volume.
	Root   string // Path of root changes that an earlier machine saved with SaveRoot. Empty if there are none.
	Bytes  int64  // Maximum size of the volume's files. 0 means DefaultVolumeBytes.
}

// TreeIncomplete is the name of a file in the folder of a TreeStorage. While it exists, the machine
// can have entries that the folder lacks, because its kernel keeps them in memory. Sockets are an
// example. A driver removes the file when a machine boots.
const TreeIncomplete = "incomplete"

// DefaultVolumeBytes is the size of a volume if the caller sets no size.
const DefaultVolumeBytes = 16 << 30

// Disk is one of the two disks of a machine.
type Disk string

// These are the two disks.
const (
	RootDisk   Disk = "root"
	VolumeDisk Disk = "volume"
)
