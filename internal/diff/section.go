package diff

import (
	"bytes"
	"crypto/sha1"
	"fmt"
	"io/fs"

	"github.com/rogpeppe/go-internal/diff"
)

// blob is one side of a file in a patch: the mode and content of a file or symbolic link.
type blob struct {
	mode string // git's mode, or "" if git can't represent the file
	content
}

// section is the part of a patch about one file. If git sees no change, its text is empty.
type section struct {
	text           []byte
	added, removed int // lines
	binary         bool
	omitted        bool // the text does not contain the content, so git would reject it
}

// gitMode returns git's mode for a file. If git can't represent the file, it returns "". The mode
// contains the owner's executable bit, but no other permissions.
func gitMode(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "120000"
	case !m.IsRegular():
		return ""
	case m&0o100 != 0:
		return "100755"
	}
	return "100644"
}

// newSection describes the changes to a file whose type is unchanged. One of the blobs can be nil.
// If the section is not wanted in the patch, its text does not contain binary content, which can be
// large.
func newSection(path string, old, now *blob, wanted bool) section {
	var s section
	created, deleted := old == nil, now == nil
	if created {
		old = &blob{}
	}
	if deleted {
		now = &blob{}
	}
	if old.mode == "" && now.mode == "" {
		return s
	}
	var b bytes.Buffer
	a, z := quote("a/"+path), quote("b/"+path)
	fmt.Fprintf(&b, "diff --git %s %s\n", a, z)
	switch {
	case created:
		fmt.Fprintf(&b, "new file mode %s\n", now.mode)
		a = "/dev/null"
	case deleted:
		fmt.Fprintf(&b, "deleted file mode %s\n", old.mode)
		z = "/dev/null"
	case old.mode != now.mode:
		fmt.Fprintf(&b, "old mode %s\nnew mode %s\n", old.mode, now.mode)
	}
	header := b.Len()
	s.difference(&b, a, z, old, now, wanted)
	if b.Len() > header || created || deleted || old.mode != now.mode {
		s.text = b.Bytes()
	}
	return s
}

// difference writes and counts the changes to the content. The names a and z must already be
// quoted.
func (s *section) difference(b *bytes.Buffer, a, z string, old, now *blob, wanted bool) {
	if !old.large && !now.large && bytes.Equal(old.data, now.data) && old.mode != "" && now.mode != "" {
		return
	}
	if old.large || now.large {
		s.binary, s.omitted = true, true
		return
	}
	fmt.Fprintf(b, "index %s..%s", hash(old), hash(now))
	if old.mode == now.mode {
		b.WriteString(" " + now.mode)
	}
	b.WriteByte('\n')
	if old.text() && now.text() {
		hunks, added, removed := compareLines(old.data, now.data)
		s.added, s.removed = added, removed
		if len(hunks) > 0 {
			fmt.Fprintf(b, "--- %s%s\n+++ %s%s\n", a, tab(a), z, tab(z))
			b.Write(hunks)
		}
		return
	}
	s.binary = true
	if wanted {
		writeBinary(b, now.data)
	}
}

// hash returns git's hash of a blob. For binary content, `git apply` checks this hash.
func hash(b *blob) string {
	if b.mode == "" {
		return "0000000000000000000000000000000000000000"
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(b.data))
	h.Write(b.data)
	return fmt.Sprintf("%x", h.Sum(nil))
}

// compareLines returns the hunks that turn the old content into the new content. It also returns
// the numbers of added and removed lines. It takes O(n log n) time for any input.
func compareLines(old, now []byte) (hunks []byte, added, removed int) {
	hunks = diff.Diff("", old, "", now)
	for range 3 { // Remove the header, which contains no names.
		_, hunks, _ = bytes.Cut(hunks, []byte("\n"))
	}
	for line := range bytes.Lines(hunks) {
		switch line[0] {
		case '+':
			added++
		case '-':
			removed++
		}
	}
	return hunks, added, removed
}
