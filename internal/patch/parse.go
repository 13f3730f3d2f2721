package patch

import (
	"bytes"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// section is what a patch says of one file.
type section struct {
	line         int    // of its header, from 1
	path         string // which file it is about; the new name of one that is renamed or copied
	from         string // the old name of that
	status       Status
	oldMode, new mode   // as the patch tells them, 0 where it does not
	oldHash      string // of the whole content, where the patch tells it
	newHash      string
	hunks        []hunk
	binary       *literal
	nameless     bool // it says that binary files differ, and not how
	again        bool // it takes its file as sections before have made it, and not from the tree
	added        int  // lines
	removed      int
}

// parser reads the sections of a patch.
type parser struct {
	reader
	sections []*section
	hunks    int
	unpacked int // bytes of the binary content that leads back
}

func parse(text []byte) ([]*section, error) {
	if len(text) > MaxPatch {
		return nil, fault.New(fault.Exhausted, op, "", "the patch is larger than %d MiB", MaxPatch>>20)
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) // a byte order mark
	if !bytes.HasSuffix(text, []byte("\n")) {
		text = append(text[:len(text):len(text)], '\n') // the last line break is easily lost on the way
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
			return nil, invalid(start, "a hunk without the header of a file before it, which is --- and +++ with a name")
		default: // what people and programs write between the files
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
		return nil, fault.New(fault.Invalid, op, "", "this is no unified patch: there are no --- and +++ lines with the name of a file")
	}
	return p.sections, nil
}

// hasNames tells whether the next two lines name a file.
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
		return nil, invalid(p.line, "there is no hunk after the names of a file: its header is @@ -LINE,COUNT +LINE,COUNT @@")
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
			return nil, invalid(p.line, "there is no hunk after the names of a file: its header is @@ -LINE,COUNT +LINE,COUNT @@")
		}
	}
	if err := h.resolve(s); err != nil {
		return nil, err
	}
	if err := p.content(s, &h); err != nil {
		return nil, err
	}
	if s.status == Modified && len(s.hunks) == 0 && s.binary == nil && !s.nameless && s.new == 0 {
		return nil, invalid(h.line, "nothing follows the header of %.200q", s.path)
	}
	return s, nil
}

// content reads the hunks of a section, or its binary content.
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
			return invalid(k.line, "a hunk of the new file %.200q has lines that were there before", s.path)
		}
		if s.status == Deleted && k.new > 0 {
			return invalid(k.line, "a hunk of the deleted file %.200q has lines that stay", s.path)
		}
		s.hunks = append(s.hunks, k)
		s.added += k.added
		s.removed += k.removed
	}
	return nil
}
