package diff

import (
	"bytes"
	"crypto/sha1"
	"fmt"
	"io/fs"

	"github.com/rogpeppe/go-internal/diff"
)

// blob is one side of a file's section in a patch: what git knows of a file or a link.
type blob struct {
	mode string // git's, empty for what git does not know
	content
}

// section is what a patch says of one file, and what it amounts to. Its text is empty where git has nothing to say.
type section struct {
	text           []byte
	added, removed int // lines
	binary         bool
	omitted        bool // the content is not in the text
}

// gitMode is the mode that git has for a file, empty where it knows no such thing. Of the permission bits it keeps the owner's x.
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

// newSection writes what became of a file whose type did not change. One of the blobs may be nil. Where the text is not wanted it is there all the same,
// but for its largest part, binary content.
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

// difference writes how the content differs, and counts it. The names a and z are as they stand in the patch.
func (s *section) difference(b *bytes.Buffer, a, z string, old, now *blob, wanted bool) {
	if !old.large && !now.large && bytes.Equal(old.data, now.data) && old.mode != "" && now.mode != "" {
		return
	}
	if old.large || now.large {
		s.binary, s.omitted = true, true
		fmt.Fprintf(b, "Binary files %s and %s differ\n", a, z)
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

// hash is git's name of a blob, which `git apply` checks for binary content.
func hash(b *blob) string {
	if b.mode == "" {
		return "0000000000000000000000000000000000000000"
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(b.data))
	h.Write(b.data)
	return fmt.Sprintf("%x", h.Sum(nil))
}

// compareLines gives the hunks that make now of old, and how many lines they add and remove. Its time is O(n log n), whatever the lines.
func compareLines(old, now []byte) (hunks []byte, added, removed int) {
	hunks = diff.Diff("", old, "", now)
	for range 3 { // lines of a header, which names nothing
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
