package storage

import (
	"crypto/rand"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"
)

// path returns the path of a disk. Names come from the database, so path makes sure that no name
// points outside of the folder.
func (f Folder) path(name string) string {
	if name == "" || strings.ContainsAny(name, "/\x00") || name[0] == '.' {
		return filepath.Join(f.Path, "unusable")
	}
	return filepath.Join(f.Path, name)
}

// paths returns the paths of disks, in the same order as their names.
func (f Folder) paths(names []string) []string {
	var all []string
	for _, n := range names {
		all = append(all, f.path(n))
	}
	return all
}

// DiskPath returns the path of a disk.
func (f Folder) DiskPath(name string) string { return f.path(name) }

// name returns a new name that is unique across workspaces.
func name(what, suffix string) string {
	var random [8]byte
	rand.Read(random[:])
	return what + "-" + hex.EncodeToString(random[:]) + suffix
}

// top returns the name of the highest layer, or "" if there is none.
func top(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[len(names)-1]
}

// over returns the layers with another layer on top. It does not change the caller's slice.
func over(names []string, layer string) []string {
	return append(slices.Clone(names), layer)
}
