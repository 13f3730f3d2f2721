// Package listing encodes directory listings that a machine sends to its supervisor. The format is
// compact and fast to write, because the search for one changed file can require a list of twenty
// thousand. It is described in proto/agent/v1, at GET /volume/list.
package listing

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Kind is the type of an entry.
type Kind byte

// The kinds start at 1, because a zero byte ends a list.
const (
	File Kind = 1 + iota
	Folder
	Link  // symbolic link
	Other // a file of an unknown type
	Pipe
	Socket
	CharDevice
	BlockDevice
)

// String returns the name that results use for a kind.
func (k Kind) String() string {
	switch k {
	case File:
		return "file"
	case Folder:
		return "directory"
	case Link:
		return "symlink"
	}
	return "other"
}

// Special reports whether an entry is a device, a pipe or a socket.
func (k Kind) Special() bool { return k >= Other }

// Limits of a list.
const (
	MaxPath    = 4096     // maximum length of a path or link target, in bytes
	MaxEntries = 16 << 20 // maximum number of entries; larger than the number of inodes in a volume
)

// Attributes are the attributes of a file.
type Attributes struct {
	Kind       Kind
	Mode       uint32 // permission, set-id and sticky bits
	Size       int64  // bytes
	ModTime    int64  // nanoseconds since 1970
	ChangeTime int64  // last change to content or attributes, in nanoseconds since 1970
	Inode      uint64
	UID, GID   uint32
	Links      uint32
}

// FileMode returns the type and the mode bits. For the kind Other, the type is irregular.
func (a *Attributes) FileMode() fs.FileMode {
	mode := fs.FileMode(a.Mode & 0o777)
	for i, flag := range [...]fs.FileMode{fs.ModeSticky, fs.ModeSetgid, fs.ModeSetuid} {
		if a.Mode&(0o1000<<i) != 0 {
			mode |= flag
		}
	}
	switch a.Kind {
	case Folder:
		mode |= fs.ModeDir
	case Link:
		mode |= fs.ModeSymlink
	}
	if a.Kind.Special() {
		mode |= fs.ModeIrregular
	}
	return mode
}

// Entry is an entry of a list.
type Entry struct {
	Path string // relative to the listed path; empty for the listed path itself
	Attributes
	Target string // link target of a symbolic link
}

// Mark identifies a version of a file.
type Mark struct {
	Inode      uint64
	Size       int64
	ModTime    int64
	ChangeTime int64
	Mode       uint32
}

// Mark returns the mark of a file with these attributes.
func (a *Attributes) Mark() Mark { return Mark{a.Inode, a.Size, a.ModTime, a.ChangeTime, a.Mode} }

// String formats the mark for the PYRO.expect record of a change.
func (m Mark) String() string {
	return fmt.Sprintf("%d:%d:%d:%d:%o", m.Inode, m.Size, m.ModTime, m.ChangeTime, m.Mode)
}

// ParseMark parses a mark that String has formatted.
func ParseMark(s string) (Mark, error) {
	parts := strings.Split(s, ":")
	if len(parts) != 5 {
		return Mark{}, fmt.Errorf("%q must have five numbers", s)
	}
	var m Mark
	var errs [5]error
	var mode uint64
	m.Inode, errs[0] = strconv.ParseUint(parts[0], 10, 64)
	m.Size, errs[1] = strconv.ParseInt(parts[1], 10, 64)
	m.ModTime, errs[2] = strconv.ParseInt(parts[2], 10, 64)
	m.ChangeTime, errs[3] = strconv.ParseInt(parts[3], 10, 64)
	mode, errs[4] = strconv.ParseUint(parts[4], 8, 12)
	m.Mode = uint32(mode)
	for _, err := range errs {
		if err != nil {
			return Mark{}, fmt.Errorf("read the mark %q: %w", s, err)
		}
	}
	return m, nil
}
