// Package listing is the form in which what is in a folder travels from a machine to its owner: compact and quick to make, since twenty thousand files are
// listed where one is looked for that has changed. The form is described in proto/agent/v1, beside GET /volume/list.
package listing

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind is what sort of thing an entry is.
type Kind byte

// The kinds. There is no zero kind: it ends a list.
const (
	File Kind = 1 + iota
	Folder
	Link  // symbolic
	Other // a socket, a pipe, a device
)

// Bounds of a list.
const (
	MaxPath    = 4096     // bytes of a path, and of a link's target
	MaxEntries = 16 << 20 // more than a volume has inodes
)

// Attributes are what is known of a file beside its name.
type Attributes struct {
	Kind       Kind
	Mode       uint32 // permission, set-id and sticky bits
	Size       int64  // bytes
	ModTime    int64  // nanoseconds since 1970
	ChangeTime int64  // of content or attributes, in nanoseconds since 1970
	Inode      uint64
	UID, GID   uint32
	Links      uint32
}

// Entry is one thing in a list.
type Entry struct {
	Path string // relative to what is listed, which itself has the empty one
	Attributes
	Target string // of a symbolic link
}

// Mark is by what a thing is known to be still what it was.
type Mark struct {
	Inode      uint64
	Size       int64
	ModTime    int64
	ChangeTime int64
	Mode       uint32
}

// Mark gives the mark of what has these attributes.
func (a *Attributes) Mark() Mark { return Mark{a.Inode, a.Size, a.ModTime, a.ChangeTime, a.Mode} }

// String gives the mark as a change wants it in PYRO.expect.
func (m Mark) String() string {
	return fmt.Sprintf("%d:%d:%d:%d:%o", m.Inode, m.Size, m.ModTime, m.ChangeTime, m.Mode)
}

// ParseMark reads what String gives.
func ParseMark(s string) (Mark, error) {
	parts := strings.Split(s, ":")
	if len(parts) != 5 {
		return Mark{}, fmt.Errorf("a mark has five numbers: %q", s)
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
