// Package saved saves the memory of a running QEMU process and loads it into another one.
//
// QEMU's parent process reads and writes this memory through /proc ([Memory]). The memory is a
// private mapping of a file, the base. The kernel knows which pages have changed. [Save] writes
// each page that differs from the base and is not free, and [Load] restores these pages. So
// unchanged memory takes no space, and the files do not grow if a machine is saved many times. Each
// MiB has a checksum ([record.Sums]).
//
// The state of the devices comes from QEMU itself. [Devices] makes a migration stream from this
// state, and another QEMU process reads the stream
// (https://www.qemu.org/docs/master/devel/migration/main.html).
//
// A hostile guest might control the QEMU process, and a file might be damaged. So all input is
// limited in size and checked.
package saved
