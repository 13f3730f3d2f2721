package patch

import (
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/lazyregexp"
)

// maxHeader limits the length of a header line in bytes. It is large enough for two quoted names.
const maxHeader = 4*2*maxPath + 64

// devNull stands in place of the name of a file that does not exist.
const devNull = "/dev/null"

// mode is a file mode in git's notation. 0 means that the patch does not state a mode.
type mode uint32

func (m mode) link() bool       { return m&0o170000 == 0o120000 }
func (m mode) executable() bool { return m&0o100 != 0 }

// typeOf returns the file type bits for the mode.
func (m mode) typeOf() fs.FileMode {
	if m.link() {
		return fs.ModeSymlink
	}
	return 0
}

// header is the part of a section before the hunks.
type header struct {
	line             int
	git              bool
	common           string // The name in "diff --git", if both sides have the same name.
	old, new         string // The names after "---" and "+++".
	created, deleted bool
	from, to         string // The names of a rename or copy.
	renamed, copied  bool
	converted        bool // The header's lines end in CR LF, so a conversion has changed all line ends.
}

// headerLine consumes the next line. It returns the line without the prefix and without a final CR.
func (p *parser) headerLine(h *header, prefix string) (string, error) {
	line := p.peek()
	if len(line) > maxHeader {
		return "", invalid(p.line, "the header line is too long")
	}
	rest, converted := strings.CutSuffix(string(line[len(prefix):]), "\r")
	h.converted = h.converted || converted
	p.skip()
	return rest, nil
}

// names reads the "---" and "+++" lines. A timestamp can follow each name. For a file that does not
// exist, GNU diff -N writes the Unix epoch.
func (p *parser) names(h *header) error {
	for _, side := range []struct {
		prefix string
		name   *string
		absent *bool
	}{{"--- ", &h.old, &h.created}, {"+++ ", &h.new, &h.deleted}} {
		rest, err := p.headerLine(h, side.prefix)
		if err != nil {
			return err
		}
		cut := cutName
		if !h.git {
			cut = cutTime
		}
		name, stamp, ok := cut(rest)
		if !ok || name == "" {
			return invalid(p.line-1, "%.200q is not a name", rest)
		}
		*side.name = name
		if name == devNull || !h.git && isEpoch(stamp) {
			*side.absent = true
		}
	}
	return nil
}

// stampForm matches a timestamp after a name. The separator is a tab. If the tab was lost, it is
// one or more spaces.
var stampForm = lazyregexp.New(`(?:\t(?:\d\d)?\d\d-\d\d-\d\d| +(?:\d\d)?\d\d-\d\d-\d\d \d\d:\d\d:\d\d)(?: \d\d:\d\d:\d\d)?(?:\.\d+)?(?: [-+]\d\d:?\d\d)?$`)

// cutTime splits an unquoted name from its timestamp, in the format of GNU diff. The name can
// contain a tab.
func cutTime(text string) (name, stamp string, ok bool) {
	at := stampForm().FindStringIndex(text)
	if at == nil || strings.HasPrefix(text, `"`) {
		return cutName(text)
	}
	return text[:at[0]], text[at[0]:], true
}

func isEpoch(stamp string) bool {
	for _, zone := range []string{"-0700", "-07:00"} {
		t, err := time.Parse("2006-01-02 15:04:05 "+zone, strings.TrimSpace(stamp)) // time.Parse accepts fractions of a second
		if err == nil && t.UnixNano() == 0 {
			return true
		}
	}
	return false
}

// gitHeader reads the "diff --git" line and the extended header lines of git.
func (p *parser) gitHeader(h *header, s *section) error {
	rest, err := p.headerLine(h, "diff --git ")
	if err != nil {
		return err
	}
	h.common = commonName(rest)
	for {
		var err error
		switch {
		case p.has("old mode "):
			s.oldMode, err = p.mode(h, "old mode ")
		case p.has("new mode "):
			s.new, err = p.mode(h, "new mode ")
		case p.has("deleted file mode "):
			h.deleted = true
			s.oldMode, err = p.mode(h, "deleted file mode ")
		case p.has("new file mode "):
			h.created = true
			s.new, err = p.mode(h, "new file mode ")
		case p.has("rename from "):
			h.renamed = true
			h.from, err = p.name(h, "rename from ")
		case p.has("rename to "):
			h.renamed = true
			h.to, err = p.name(h, "rename to ")
		case p.has("copy from "):
			h.copied = true
			h.from, err = p.name(h, "copy from ")
		case p.has("copy to "):
			h.copied = true
			h.to, err = p.name(h, "copy to ")
		case p.has("index "):
			err = p.index(h, s)
		case p.has("similarity index "), p.has("dissimilarity index "):
			p.skip()
		default:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (p *parser) mode(h *header, prefix string) (mode, error) {
	text, err := p.headerLine(h, prefix)
	if err != nil {
		return 0, err
	}
	return readMode(text, h.common, p.line-1)
}

// readMode parses a mode. Git has only the file types in this function, and uses only the owner's
// executable bit.
func readMode(text, name string, line int) (mode, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 8, 32)
	switch m := mode(n); {
	case err != nil:
		return 0, invalid(line, "%.20q is not a mode", text)
	case m&0o170000 == 0o100000, m.link():
		return m, nil
	case m&0o170000 == 0o160000:
		return 0, invalid(line, "%.200q is a submodule, which a patch can't change: remove it from the patch", name)
	}
	return 0, invalid(line, "%.20q is the mode of neither a file nor a symbolic link", text)
}

func (p *parser) name(h *header, prefix string) (string, error) {
	rest, err := p.headerLine(h, prefix)
	if err != nil {
		return "", err
	}
	name, ok := wholeName(rest)
	if !ok {
		return "", invalid(p.line-1, "%.200q is not a name", rest)
	}
	return name, nil
}

// indexForm matches git's index line. It contains the hashes before and after the change, which can
// be abbreviated. It contains the mode if the mode is unchanged.
var indexForm = lazyregexp.New(`^([0-9a-f]{4,64})\.\.([0-9a-f]{4,64})(?: ([0-7]{5,7}))?$`)

// index reads the "index" line, which is necessary for binary content and symbolic links. It
// ignores a malformed line, because people and models invent such lines.
func (p *parser) index(h *header, s *section) (err error) {
	line := p.line
	rest, err := p.headerLine(h, "index ")
	if err != nil {
		return err
	}
	parts := indexForm().FindStringSubmatch(strings.TrimSpace(rest))
	if parts == nil {
		return nil
	}
	s.oldHash, s.newHash = parts[1], parts[2]
	if parts[3] != "" {
		s.oldMode, err = readMode(parts[3], h.common, line)
	}
	return err
}

// resolve determines the status and the paths of the section from its header.
func (h *header) resolve(s *section) error {
	switch {
	case h.created && h.deleted, h.renamed && h.copied, (h.created || h.deleted) && (h.renamed || h.copied):
		return invalid(h.line, "a patch can do only one of these with a file: create, delete, rename or copy it")
	case h.renamed || h.copied:
		s.status, s.path, s.from = Renamed, h.to, h.from
		if h.copied {
			s.status = Copied
		}
		if h.from == "" || h.to == "" {
			return invalid(h.line, "a rename or copy needs both names")
		}
	case h.created:
		s.status, s.path = Added, h.one(h.new, "b/")
	case h.deleted:
		s.status, s.path = Deleted, h.one(h.old, "a/")
	default:
		s.status, s.path = Modified, h.both()
	}
	if s.path == "" {
		return invalid(h.line, "the header has no file name")
	}
	if s.from == "" && h.common != "" && s.path != h.common || s.from != "" && h.old != "" && !(names(h.old, s.from) && names(h.new, s.path)) {
		return invalid(h.line, "the names in the header belong to different files: the last one is %.200q", h.new)
	}
	for _, path := range []string{s.path, s.from} {
		if path != "" && !validPath(path) {
			return invalid(h.line, "%.200q is not a valid path", path)
		}
	}
	if s.status == Renamed && s.path == s.from {
		return invalid(h.line, "%.200q is renamed to itself", s.path)
	}
	if s.oldMode != 0 && s.new != 0 && s.oldMode.link() != s.new.link() {
		return invalid(h.line, "a patch can't change a file into a symbolic link or back: delete and create it instead")
	}
	return nil
}
