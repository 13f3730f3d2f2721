package diff

import (
	"fmt"
	"io/fs"
)

// Status says what became of a path.
type Status string

// The statuses. Modified is a change of content, mode or link.
const (
	Added       Status = "added"
	Modified    Status = "modified"
	Deleted     Status = "deleted"
	TypeChanged Status = "type_changed"
)

// Kind is what a path leads to.
type Kind string

// The kinds. Other is a device, FIFO or socket.
const (
	File      Kind = "file"
	Directory Kind = "directory"
	Symlink   Kind = "symlink"
	Other     Kind = "other"
)

// Change is one path that differs.
type Change struct {
	Path   string `json:"path"`
	Status Status `json:"status"`
	// Kind is that of what is there now, or was until it was deleted. OldKind is told where it was another one.
	Kind    Kind `json:"kind"`
	OldKind Kind `json:"old_kind,omitempty"`
	// The permission bits in octal, setuid, setgid and sticky among them: "0755". Both where they differ, and the one that there is of what was added or
	// deleted. Links have none.
	OldMode string `json:"old_mode,omitempty"`
	NewMode string `json:"new_mode,omitempty"`
	// The targets of a symbolic link, where they differ.
	OldLink string `json:"old_link,omitempty"`
	NewLink string `json:"new_link,omitempty"`
	// The sizes of files in bytes, also where they are the same. 0 for everything else.
	OldSize int64 `json:"old_size"`
	NewSize int64 `json:"new_size"`
	// Binary: the content is not told by lines, because it is not UTF-8, has a zero byte or is too large.
	Binary       bool `json:"binary"`
	LinesAdded   int  `json:"lines_added"`
	LinesRemoved int  `json:"lines_removed"`
	// PatchOmitted: a change of content or link that is not in the patch, since it is too large, the patch had reached its limit, or git refuses the name.
	PatchOmitted bool `json:"patch_omitted,omitempty"`
}

// Summary counts changes. A change has one status; a modified one may be counted as mode_changed too, and any as binary and patch_omitted.
type Summary struct {
	Added        int `json:"added"`
	Modified     int `json:"modified"`
	Deleted      int `json:"deleted"`
	TypeChanged  int `json:"type_changed"`
	ModeChanged  int `json:"mode_changed"`
	Binary       int `json:"binary"`
	PatchOmitted int `json:"patch_omitted"`
	LinesAdded   int `json:"lines_added"`
	LinesRemoved int `json:"lines_removed"`
	// Ignored counts what was left out: new paths that a .gitignore ignores, and what is in folders
	// named __pycache__. The other counts do not have it.
	Ignored int `json:"ignored"`
}

// count adds a change to the summary.
func (s *Summary) count(c Change) {
	switch c.Status {
	case Added:
		s.Added++
	case Modified:
		s.Modified++
		if c.OldMode != c.NewMode {
			s.ModeChanged++
		}
	case Deleted:
		s.Deleted++
	case TypeChanged:
		s.TypeChanged++
	}
	if c.Binary {
		s.Binary++
	}
	if c.PatchOmitted {
		s.PatchOmitted++
	}
	s.LinesAdded += c.LinesAdded
	s.LinesRemoved += c.LinesRemoved
}

func kindOf(m fs.FileMode) Kind {
	switch m.Type() {
	case 0:
		return File
	case fs.ModeDir:
		return Directory
	case fs.ModeSymlink:
		return Symlink
	}
	return Other
}

// bitsOf are the permission bits, setuid, setgid and sticky as Linux has them. Those of links mean nothing and are 0.
func bitsOf(m fs.FileMode) uint32 {
	if m&fs.ModeSymlink != 0 {
		return 0
	}
	bits := uint32(m.Perm())
	if m&fs.ModeSetuid != 0 {
		bits |= 0o4000
	}
	if m&fs.ModeSetgid != 0 {
		bits |= 0o2000
	}
	if m&fs.ModeSticky != 0 {
		bits |= 0o1000
	}
	return bits
}

// modeOf is the mode as entries tell it.
func modeOf(m fs.FileMode) string {
	if m&fs.ModeSymlink != 0 {
		return ""
	}
	return fmt.Sprintf("%04o", bitsOf(m))
}

// describe fills in what the two entries of a path tell, of which one may be nil.
func describe(before, after *Entry) Change {
	var c Change
	if before != nil {
		c.Path, c.Status, c.Kind, c.OldMode, c.OldLink, c.OldSize = before.Path, Deleted, kindOf(before.Mode), modeOf(before.Mode), before.Link, size(before)
	}
	if after != nil {
		if c.Status = Added; before != nil {
			c.Status = Modified
			if before.Mode.Type() != after.Mode.Type() {
				c.Status = TypeChanged
			}
			if c.OldKind = c.Kind; c.OldKind == kindOf(after.Mode) {
				c.OldKind = ""
			}
		}
		c.Path, c.Kind, c.NewMode, c.NewLink, c.NewSize = after.Path, kindOf(after.Mode), modeOf(after.Mode), after.Link, size(after)
	}
	if c.OldMode == c.NewMode {
		c.OldMode, c.NewMode = "", ""
	}
	if c.OldLink == c.NewLink {
		c.OldLink, c.NewLink = "", ""
	}
	return c
}

func size(e *Entry) int64 {
	if !e.Mode.IsRegular() {
		return 0
	}
	return e.Size
}
