package diff

import (
	"fmt"
	"io/fs"
)

// Status is the kind of change to a path.
type Status string

// Values of Status. Modified means a change to the content, mode or link target.
const (
	Added       Status = "added"
	Modified    Status = "modified"
	Deleted     Status = "deleted"
	TypeChanged Status = "type_changed"
)

// Kind is the type of a file.
type Kind string

// Values of Kind. Other is a device, FIFO or socket.
const (
	File      Kind = "file"
	Directory Kind = "directory"
	Symlink   Kind = "symlink"
	Other     Kind = "other"
)

// Change describes the change to one path.
type Change struct {
	Path   string `json:"path"`
	Status Status `json:"status"`
	// Kind is the current type, or for a deleted path the type before. OldKind is set if the type
	// has changed.
	Kind    Kind `json:"kind"`
	OldKind Kind `json:"old_kind,omitempty"`
	// OldMode and NewMode are octal permission bits including setuid, setgid and sticky, such as
	// "0755". They are set if they differ. Added and deleted files have only one of them. Links
	// have neither.
	OldMode string `json:"old_mode,omitempty"`
	NewMode string `json:"new_mode,omitempty"`
	// OldLink and NewLink are the targets of symbolic links. They are set if they differ.
	OldLink string `json:"old_link,omitempty"`
	NewLink string `json:"new_link,omitempty"`
	// OldSize and NewSize are sizes of files in bytes. They are set even if they are equal. For
	// other types they are 0.
	OldSize int64 `json:"old_size"`
	NewSize int64 `json:"new_size"`
	// Binary means that lines were not compared, because the content is invalid UTF-8, contains NUL
	// or is too large.
	Binary       bool `json:"binary"`
	LinesAdded   int  `json:"lines_added"`
	LinesRemoved int  `json:"lines_removed"`
	// PatchOmitted means that the patch does not contain the change. Either the change is too
	// large, or the patch has reached its limit, or git rejects the name.
	PatchOmitted bool `json:"patch_omitted,omitempty"`

	// Before and After are the types and modes. They are 0 if there is no entry.
	Before fs.FileMode `json:"-"`
	After  fs.FileMode `json:"-"`
}

// Summary counts changes. Each change counts once by its status. In addition, a modified path can
// count as mode_changed, and any change can count as binary and patch_omitted.
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
	// Ignored counts paths that were not compared: new paths that a .gitignore file ignores, and
	// content of directories named __pycache__. The other counts do not include these paths.
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

// bitsOf returns the permission bits, setuid, setgid and sticky in Linux's encoding. For symbolic
// links it returns 0, because their bits have no meaning.
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

// modeOf returns a mode in the format of OldMode and NewMode.
func modeOf(m fs.FileMode) string {
	if m&fs.ModeSymlink != 0 {
		return ""
	}
	return fmt.Sprintf("%04o", bitsOf(m))
}

// describe returns the change between the old and the new entry of a path. One of them can be nil.
func describe(before, after *Entry) Change {
	var c Change
	if before != nil {
		c.Path, c.Status, c.Kind, c.OldMode, c.OldLink, c.OldSize = before.Path, Deleted, kindOf(before.Mode), modeOf(before.Mode), before.Link, size(before)
		c.Before = before.Mode
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
		c.After = after.Mode
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
