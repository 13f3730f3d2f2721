// Package vmcore finds the free page frames of a paused Linux guest in the guest's memory ([Free]).
// It works like a crash dump tool.
//
// The memory of a Linux kernel contains a note for such tools. The note gives the addresses and
// layouts of the page tables and of the page frames' descriptors (VMCOREINFO,
// https://docs.kernel.org/admin-guide/kdump/vmcoreinfo.html). [Find] finds the note in a machine
// that has just booted, and [Parse] parses it. The parsed note allows reading the descriptors at
// any later time. A frame is free if the buddy allocator owns it. Frames in the free list of a
// single processor do not count as free.
//
// The guest does not take part, so nothing changes between the search and the use of its result.
// Root in the guest can forge the kernel's memory. So all input is limited in size and checked. A
// forged result can damage only the guest's own memory. If the data can't be parsed, no frame
// counts as free.
//
// The package supports only x86-64.
package vmcore

// PageSize is the size of a page frame, in bytes.
const PageSize = 4096

// The guest has no memory between 3 GiB and 4 GiB. The memory beyond the first 3 GiB begins at 4
// GiB, as in QEMU's microvm machine (hw/i386/microvm.c). [Kernel.Free] checks that the guest's
// kernel has the same layout.
const (
	holeBegin = 3 << 30
	holeEnd   = 4 << 30
)

// offsetOf translates a physical address to an offset in the guest's memory, which has size bytes.
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

// frameOf returns the number that the guest's kernel uses for a page.
func frameOf(page int64) int64 {
	if page*PageSize >= holeBegin {
		page += (holeEnd - holeBegin) / PageSize
	}
	return page
}
