// Package vmcore reads the memory of a Linux guest that stands still, as tools for crash dumps do: which of its page frames are free ([Free]).
//
// A Linux kernel keeps a note in its memory for whoever makes a dump of it: where its page tables and the descriptors of its page frames are, and how these are laid out
// (VMCOREINFO, https://docs.kernel.org/admin-guide/kdump/vmcoreinfo.html). [Find] finds the note in a machine that has just booted, [Parse] reads it, and with what it says the
// descriptors of any later moment are found. A free frame is one that the buddy allocator has; those that wait in a processor's own list for their next use are not counted.
//
// Nothing is asked of the guest, so nothing changes between the answer and its use. Whoever is root in the guest can have its kernel's memory say what they like: what is read here is
// bounded and checked, and a lie loses nobody's memory but the guest's own. What is not understood makes no frame free.
//
// Only x86-64 is known.
package vmcore

// PageSize is that of a frame.
const PageSize = 4096

// The guest has no memory between 3 and 4 GiB: what would be there begins at 4 GiB. That is how QEMU lays out its microvm machine (hw/i386/microvm.c), and what [Kernel.Free] holds against
// what the guest's kernel found.
const (
	holeBegin = 3 << 30
	holeEnd   = 4 << 30
)

// offsetOf gives where a physical address is in a memory of size bytes.
func offsetOf(address uint64, size int64) (offset int64, ok bool) {
	switch {
	case address >= 1<<52:
		return 0, false
	case address >= holeEnd:
		offset = int64(address) - holeEnd + holeBegin
	case address >= holeBegin:
		return 0, false
	default:
		offset = int64(address)
	}
	return offset, offset < size
}

// frameOf gives the number that the guest's kernel knows a page of its memory by.
func frameOf(page int64) int64 {
	if page*PageSize >= holeBegin {
		page += (holeEnd - holeBegin) / PageSize
	}
	return page
}
