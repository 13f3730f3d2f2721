package main

import (
	"reflect"
	_ "unsafe" // for linkname

	"gvisor.dev/gvisor/pkg/fd"
	"gvisor.dev/gvisor/pkg/lisafs"
	_ "gvisor.dev/gvisor/runsc/fsgofer" // has procSelfFD
)

// gVisor does not export these functions of package lisafs. A lookup takes a reference, and the
// caller releases it.

//go:linkname lookupControlFD gvisor.dev/gvisor/pkg/lisafs.(*Connection).lookupControlFD
func lookupControlFD(c *lisafs.Connection, id lisafs.FDID) (*lisafs.ControlFD, error)

//go:linkname lookupOpenFD gvisor.dev/gvisor/pkg/lisafs.(*Connection).lookupOpenFD
func lookupOpenFD(c *lisafs.Connection, id lisafs.FDID) (*lisafs.OpenFD, error)

// safelyRead calls fn while no call changes the file.
//
//go:linkname safelyRead gvisor.dev/gvisor/pkg/lisafs.(*ControlFD).safelyRead
func safelyRead(fd *lisafs.ControlFD, fn func() error) error

// safelyWrite calls fn while no other call uses the file.
//
//go:linkname safelyWrite gvisor.dev/gvisor/pkg/lisafs.(*ControlFD).safelyWrite
func safelyWrite(fd *lisafs.ControlFD, fn func() error) error

// safelyGlobal calls fn while no other call uses the file system.
//
//go:linkname safelyGlobal gvisor.dev/gvisor/pkg/lisafs.(*ControlFD).safelyGlobal
func safelyGlobal(fd *lisafs.ControlFD, fn func() error) error

//go:linkname forEachOpenFD gvisor.dev/gvisor/pkg/lisafs.(*ControlFD).forEachOpenFD
func forEachOpenFD(fd *lisafs.ControlFD, fn func(*lisafs.OpenFD))

//go:linkname forEachFD gvisor.dev/gvisor/pkg/lisafs.(*Node).forEachFD
func forEachFD(node *lisafs.Node, fn func(*lisafs.ControlFD))

// checkSafeName returns an error if a name could lead out of its folder.
//
//go:linkname checkSafeName gvisor.dev/gvisor/pkg/lisafs.checkSafeName
func checkSafeName(name string) error

//go:linkname isDeleted gvisor.dev/gvisor/pkg/lisafs.(*Node).isDeleted
func isDeleted(node *lisafs.Node) bool

// hostFD returns the field with the descriptor of the host. Use it in safelyRead or safelyGlobal.
func hostFD(fd *lisafs.ControlFD) *int { return hostField(reflect.ValueOf(fd)) }

// openHostFD is hostFD for an open file.
func openHostFD(fd *lisafs.OpenFD) *int { return hostField(reflect.ValueOf(fd)) }

func hostField(fd reflect.Value) *int {
	impl := fd.Elem().FieldByName("impl").Elem()
	return (*int)(impl.Elem().FieldByName("hostFD").Addr().UnsafePointer())
}

// procSelfFD is the folder /proc/self/fd. The gofer reopens its descriptors there.
//
//go:linkname procSelfFD gvisor.dev/gvisor/runsc/fsgofer.procSelfFD
var procSelfFD *fd.FD
