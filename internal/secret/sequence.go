package secret

// sequence recognizes terminal control sequences (ECMA-48) in a stream.
type sequence struct {
	State  sequenceState `json:"state,omitempty"`
	Length int           `json:"length,omitempty"` // number of consecutive control bytes so far
}

type sequenceState uint8

const (
	inText    sequenceState = iota
	inEscape                // after the byte ESC
	inControl               // after ESC [
	inString                // within OSC, DCS and similar strings, which end with BEL or ESC \
)

// maxSequence is the maximum number of consecutive control bytes within a value.
const maxSequence = 1024

// endless reports whether the stream had more than maxSequence consecutive control bytes.
func (s *sequence) endless() bool { return s.Length > maxSequence }

// has processes a byte. It reports whether the byte belongs to a control sequence, or is a control
// character that does not move the cursor. It returns false for line ends.
func (s *sequence) has(c byte) bool {
	if c == '\n' || s.State == inText && !control(c) {
		s.Length = 0
		return false
	}
	if s.Length++; s.endless() {
		s.State = inText // no control sequence is this long, so the rest is treated as text
		return true
	}
	switch {
	case c == 0x1b:
		s.State = inEscape
	case s.State == inString:
		if c == 0x07 {
			s.State = inText
		}
	case c < ' ': // terminals execute control characters within a sequence
	case s.State == inEscape && c == '[':
		s.State = inControl
	case s.State == inEscape && (c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_'):
		s.State = inString
	case s.State == inEscape && c >= '0', s.State == inControl && c >= '@':
		s.State = inText
	}
	return true
}

// control reports whether a terminal shows nothing for a character and does not move the cursor.
func control(c byte) bool { return c < ' ' && c != '\t' && c != '\n' && c != '\b' || c == 0x7f }
