package qemu

import (
	"bytes"
	"os"

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/machine/qemu/saved"
	"github.com/pyro-mcp/pyro/internal/machine/qemu/vmcore"
)

// noteIn finds the kernel's note about its memory layout in a machine's memory. The result is nil
// if there is no such note or more than one.
func noteIn(ram *os.File) (note []byte, err error) {
	info, err := ram.Stat()
	if err != nil {
		return nil, err
	}
	found := 0
	err = disk.Extents(ram, func(offset, length int64) error {
		begin, end := offset/vmcore.PageSize*vmcore.PageSize, min(offset+length+vmcore.PageSize-1, info.Size())/vmcore.PageSize*vmcore.PageSize
		return vmcore.Find(ram, begin, end-begin, func(text []byte) {
			note = bytes.Clone(text)
			found++
		})
	})
	if found != 1 {
		note = nil
	}
	return note, err
}

// free returns a function that reports whether a page of a paused machine is free. It returns nil
// if the free pages are unknown. Save then keeps all pages.
func free(note []byte, memory *saved.Memory, size int64) func(page uint32) bool {
	kernel, err := vmcore.Parse(note)
	if err != nil {
		return nil
	}
	f, err := kernel.Free(memory, size)
	if err != nil {
		return nil
	}
	return f.Page
}
