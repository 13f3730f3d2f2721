package patch

import (
	"bytes"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// section is the part of a patch about one file.
type section struct {
	line         int    // Line number of the header, from 1.
	path         string // Path of the file, after a rename or copy.
	from         string // Old path of a renamed or copied file.
	status       Status
	oldMode, new mode   // 0 if the patch does not state it.
	oldHash      string // Full or abbreviated, if the patch contains it.
	newHash      string
	hunks        []hunk
	binary       *literal
	nameless     bool // The section has "Binary files differ" in place of the content.
	again        bool // The old file is the result of earlier sections, not a file in the tree.
}

// parser splits a patch into sections.
type parser struct {
	reader
	sections []*section
	hunks    int
	unpacked int // size of the reverse binary content so far, in bytes
}

func parse(text []byte) ([]*section, error) {
	if len(text) > MaxPatch {
		return nil, fault.New(fault.Exhausted, op, "", "the patch is larger than %d MiB", MaxPatch>>20)
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) // Remove a byte order mark.
	if !bytes.HasSuffix(text, []byte("\n")) {
		text = append(text[:len(text):len(text)], '\n') // The last line break often gets lost in transit.
	}
	p := &parser{reader: reader{text: text, line: 1}}
	for !p.ended() {
		start := p.line
		var s *section
		var err error
		switch {
		case p.has("diff --git "):
			s, err = p.gitSection()
		case p.has("--- ") && p.hasNames():
			s, err = p.plainSection()
		case p.has("@@"):
			return nil, invalid(start, "a hunk without a file header before it: add --- and +++ lines with the file's name")
		default: // This is other text, such as a commit message.
			p.skip()
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(p.sections) == MaxFiles {
			return nil, fault.New(fault.Exhausted, op, "", "the patch has more than %d files", MaxFiles)
		}
		s.line = start
		p.sections = append(p.sections, s)
	}
	if len(p.sections) == 0 {
		return nil, fault.New(fault.Invalid, op, "", "this is not a unified patch: it has no --- and +++ lines with a file name")
	}
	return p.sections, nil
}

// hasNames reports whether the next two lines contain the name of a file. The caller has checked
// the first of them.
func (p *parser) hasNames() bool {
	ahead := p.reader
	ahead.skip()
	return ahead.has("+++ ")
}

// plainSection reads a section that begins with "---".
func (p *parser) plainSection() (*section, error) {
	h := header{line: p.line}
	if err := p.names(&h); err != nil {
		return nil, err
	}
	if !p.has("@@") {
		return nil, invalid(p.line, "no hunk follows the file names: a hunk begins with @@ -LINE,COUNT +LINE,COUNT @@")
	}
	s := &section{}
	if err := h.resolve(s); err != nil {
		return nil, err
	}
	return s, p.content(s, &h)
}

// gitSection reads a section that begins with "diff --git".
func (p *parser) gitSection() (*section, error) {
	h := header{line: p.line, git: true}
	s := &section{}
	if err := p.gitHeader(&h, s); err != nil {
		return nil, err
	}
	if p.has("--- ") && p.hasNames() {
		if err := p.names(&h); err != nil {
			return nil, err
		}
		if !p.has("@@") {
			return nil, invalid(p.line, "no hunk follows the file names: a hunk begins with @@ -LINE,COUNT +LINE,COUNT @@")
		}
	}
	if err := h.resolve(s); err != nil {
		return nil, err
	}
	if err := p.content(s, &h); err != nil {
		return nil, err
	}
	if s.status == Modified && len(s.hunks) == 0 && s.binary == nil && !s.nameless && s.new == 0 {
		return nil, invalid(h.line, "the header of %.200q has no changes after it", s.path)
	}
	return s, nil
}

// content reads the hunks or the binary content of a section.
func (p *parser) content(s *section, h *header) error {
	switch {
	case p.has("GIT binary patch"):
		return p.binaryContent(s)
	case p.has("Binary files ") && h.git:
		s.nameless = true
		p.skip()
		return nil
	}
	for p.has("@@") {
		if p.hunks++; p.hunks > MaxHunks {
			return fault.New(fault.Exhausted, op, "", "the patch has more than %d hunks", MaxHunks)
		}
		k, err := p.hunk(h.converted)
		if err != nil {
			return err
		}
		if s.status == Added && k.old > 0 {
			return invalid(k.line, "a hunk of the new file %.200q has context or removed lines", s.path)
		}
		if s.status == Deleted && k.new > 0 {
			return invalid(k.line, "a hunk of the deleted file %.200q has context or added lines", s.path)
		}
		s.hunks = append(s.hunks, k)
	}
	return nil
}
