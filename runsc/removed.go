package main

import (
	"reflect"
	"unsafe"

	"gvisor.dev/gvisor/pkg/atomicbitops"
	"gvisor.dev/gvisor/pkg/lisafs"
)

// These calls can remove a name. gVisor's handlers have two faults:
//
// The gofer has a node for each file that the sentry knows. When the last descriptor of a removed
// file is closed, gVisor deletes the file's name from the folder's list of nodes (Node.DecRef in
// pkg/lisafs). By then, another file can have this name. Its node would be lost, and would keep its
// path after a rename. A hard link to this file could then become a link to a third file.
//
// gVisor also refuses many calls for a removed file. But the file can have other names, and the
// sentry uses one node for all of them.

func unlink(c *lisafs.Connection, comm lisafs.Communicator, asked uint32) (uint32, error) {
	var r lisafs.UnlinkAtReq
	return once(c, comm, asked, &r, func() (func(), error) { return removing(c, r.DirFD, string(r.Name)) }, lisafs.UnlinkAtHandler)
}

func rename(c *lisafs.Connection, comm lisafs.Communicator, asked uint32) (uint32, error) {
	var r lisafs.RenameAtReq
	return once(c, comm, asked, &r, func() (func(), error) { return removing(c, r.NewDir, string(r.NewName)) }, lisafs.RenameAtHandler)
}

func renameWithFlags(c *lisafs.Connection, comm lisafs.Communicator, asked uint32) (uint32, error) {
	var r lisafs.RenameAt2Req
	return once(c, comm, asked, &r, func() (func(), error) { return removing(c, r.NewDir, string(r.NewName)) }, lisafs.RenameAt2Handler)
}

// removing prepares a call that can remove a name. The caller calls release after the call.
func removing(c *lisafs.Connection, id lisafs.FDID, name string) (release func(), err error) {
	folder, err := lookupControlFD(c, id)
	if err != nil {
		return nil, err
	}
	var node *lisafs.Node
	safelyRead(folder, func() error {
		child(folder, name, func(found *lisafs.Node) {
			if node = found; node != nil {
				node.IncRef()
			}
		})
		return nil
	})
	return func() {
		defer folder.DecRef(nil)
		if node == nil {
			return
		}
		safelyGlobal(folder, func() error {
			attached := false
			child(folder, name, func(found *lisafs.Node) { attached = found == node })
			if isDeleted(node) && !attached {
				removeName(node)
			}
			node.DecRef(nil)
			return nil
		})
	}, nil
}

// child calls fn with the node of a name in a folder, or with nil if there is none.
func child(folder *lisafs.ControlFD, name string, fn func(*lisafs.Node)) {
	folder.Node().WithChildrenMu(func() { fn(folder.Node().LookupChildLocked(name)) })
}

// removedName is not a valid name of a file.
const removedName = "\x00"

// removeName removes the name of a deleted node. Use it in safelyGlobal. Only folders stay deleted.
func removeName(node *lisafs.Node) {
	*(*string)(nodeField(node, "name")) = removedName
	isFolder := false
	forEachFD(node, func(fd *lisafs.ControlFD) { isFolder = isFolder || fd.IsDir() })
	if !isFolder {
		(*atomicbitops.Uint32)(nodeField(node, "deleted")).Store(0)
	}
}

// hasName reports whether the file still has the name of a node. Use it in safelyGlobal or
// safelyRead.
func hasName(node *lisafs.Node) bool {
	return !isDeleted(node) && *(*string)(nodeField(node, "name")) != removedName
}

func nodeField(node *lisafs.Node, field string) unsafe.Pointer {
	return reflect.ValueOf(node).Elem().FieldByName(field).Addr().UnsafePointer()
}
