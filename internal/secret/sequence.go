package secret

// sequence finds the control sequences of a terminal (ECMA-48) in a stream: what a person does not see.
type sequence struct {
	State  sequenceState `json:"state,omitempty"`
	Length int           `json:"length,omitempty"` // bytes of controls that came last
}

type sequenceState uint8

const (
	inText    sequenceState = iota
	inEscape                // after ESC
	inControl               // after ESC [
	inString                // of an operating system command, for instance: up to BEL or ESC \
)

// maxSequence is how many bytes of control sequences there may be one after the other within a value.
const maxSequence = 1024

// endless tells that more bytes came than maxSequence.
func (s *sequence) endless() bool { return s.Length > maxSequence }

// has takes a byte and tells whether it is of a control sequence, or a control character that moves nothing. Line ends are not.
func (s *sequence) has(c byte) bool {
	if c == '\n' || s.State == inText && !control(c) {
		s.Length = 0
		return false
	}
	if s.Length++; s.endless() {
		s.State = inText // there are no such sequences: what follows is text again
		return true
	}
	switch {
	case c == 0x1b:
		s.State = inEscape
	case s.State == inString:
		if c == 0x07 {
			s.State = inText
		}
	case c < ' ': // is obeyed within a sequence
	case s.State == inEscape && c == '[':
		s.State = inControl
	case s.State == inEscape && (c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_'):
		s.State = inString
	case s.State == inEscape && c >= '0', s.State == inControl && c >= '@':
		s.State = inText
	}
	return true
}

// control tells whether a character is one that a terminal shows nothing for and does not move by.
func control(c byte) bool { return c < ' ' && c != '\t' && c != '\n' && c != '\b' || c == 0x7f }
