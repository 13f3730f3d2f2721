// Package saved writes down the memory of a running QEMU, and puts it into another that goes on from there.
//
// The memory is read and written from outside, as the kernel shows it to a QEMU's parent ([Memory]). It was mapped from a file, the base, and the kernel knows which pages are not that
// file's any more: what is written down ([Save], [Load]) is those that differ from it, each once, and are not free. What the machine never changed takes no room, and files don't grow with how
// often a machine was saved. Each MiB has a checksum ([record.Sums]).
//
// How the devices are only QEMU knows. What it says of them becomes a migration stream (https://www.qemu.org/docs/master/devel/migration/main.html) that another QEMU reads ([Devices]).
//
// A QEMU may have been taken over, and a file may have been changed: what is read of them is bounded and checked.
package saved
