package terminal

import (
	"bytes"
	"encoding/json"
	"errors"
)

// Switches records the offsets in a program's output at which the program switched to or from the
// alternate screen. It also records the mode of the cursor keys. Recording is much faster than
// rendering with a Screen. Only the last maxSwitches switches are kept.
type Switches struct {
	at       int64  // offset of the next byte
	sequence []byte // beginning of a control sequence that may be a switch
	all      []shown

	applicationKeys bool
}

// shown is a switch at the offset of its control sequence.
type shown struct {
	at        int64
	alternate bool
}

// switches is the JSON form of Switches.
type switches struct {
	At        int64   `json:"at"`
	Sequence  []byte  `json:"sequence,omitempty"`
	Offsets   []int64 `json:"offsets,omitempty"`
	Alternate []bool  `json:"alternate,omitempty"` // one entry per offset

	ApplicationKeys bool `json:"application_keys,omitempty"`
}

// MarshalJSON encodes the state, so that another process can continue the record.
func (s Switches) MarshalJSON() ([]byte, error) {
	w := switches{At: s.at, Sequence: s.sequence, ApplicationKeys: s.applicationKeys}
	for _, one := range s.all {
		w.Offsets, w.Alternate = append(w.Offsets, one.at), append(w.Alternate, one.alternate)
	}
	return json.Marshal(w)
}

// UnmarshalJSON restores the state.
func (s *Switches) UnmarshalJSON(b []byte) error {
	var w switches
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	if len(w.Offsets) != len(w.Alternate) || len(w.Offsets) > maxSwitches || len(w.Sequence) > maxSequence {
		return errors.New("terminal: invalid switches")
	}
	*s = Switches{at: w.At, sequence: w.Sequence, applicationKeys: w.ApplicationKeys}
	for i, at := range w.Offsets {
		s.all = append(s.all, shown{at, w.Alternate[i]})
	}
	return nil
}

const (
	maxSwitches = 256
	maxSequence = 32 // bytes
)

// Write processes output. The output can be split at any byte. Write never fails.
func (s *Switches) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		if len(s.sequence) == 0 {
			i := bytes.IndexByte(b, 0x1b)
			if i < 0 {
				s.at += int64(len(b))
				break
			}
			s.at += int64(i)
			b = b[i:]
		}
		s.take(b[0])
		s.at++
		b = b[1:]
	}
	return n, nil
}

// take processes a byte of a control sequence that may be a switch or the mode of the cursor keys.
func (s *Switches) take(c byte) {
	s.sequence = append(s.sequence, c)
	n := len(s.sequence)
	switch {
	case n > 1 && c == 0x1b:
		s.sequence = append(s.sequence[:0], c)
	case n == 2 && c == 'c': // a reset of the terminal
		s.applicationKeys = false
		s.sequence = s.sequence[:0]
	case n == 2 && c != '[', n == 3 && c != '?', n == maxSequence:
		s.sequence = s.sequence[:0]
	case n > 3 && (c == 'h' || c == 'l'):
		for mode := range bytes.SplitSeq(s.sequence[3:n-1], []byte(";")) {
			switch string(mode) {
			case "47", "1047", "1049":
				s.record(shown{s.at - int64(n) + 1, c == 'h'})
			case "1":
				s.applicationKeys = c == 'h'
			}
		}
		s.sequence = s.sequence[:0]
	case n > 3 && c != ';' && (c < '0' || c > '9'):
		s.sequence = s.sequence[:0]
	}
}

func (s *Switches) record(one shown) {
	if len(s.all) == maxSwitches {
		s.all = append(s.all[:0], s.all[1:]...)
	}
	s.all = append(s.all, one)
}

// Alternate reports whether the alternate screen was shown at an offset. If it was, since is the
// offset of the switch to the alternate screen.
func (s *Switches) Alternate(at int64) (since int64, ok bool) {
	for _, one := range s.all {
		if one.at >= at {
			break
		}
		switch {
		case !one.alternate:
			ok = false
		case !ok:
			since, ok = one.at, true
		}
	}
	return since, ok
}

// ApplicationKeys reports whether the cursor keys are in application mode. Arrows, Home and End
// then send ESC O and a letter. In normal mode they send ESC [ and the letter.
func (s *Switches) ApplicationKeys() bool { return s.applicationKeys }
