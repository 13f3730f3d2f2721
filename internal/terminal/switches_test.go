package terminal

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSwitches(t *testing.T) {
	wrote := "ls\r\n\x1b[?1049h\x1b[H\x1b[2J\x1b[?25;1049hvim\x1b[?25l\x1b[?1049l$ \x1b[1049h \x1b\x1b[?47hx"
	first, end, second := int64(strings.Index(wrote, "\x1b[?1049h")), int64(strings.Index(wrote, "\x1b[?1049l")), int64(strings.Index(wrote, "\x1b[?47h"))
	for cut := range len(wrote) {
		var s Switches
		s.Write([]byte(wrote[:cut]))
		s.Write([]byte(wrote[cut:]))
		for at := range int64(len(wrote) + 1) {
			want, wanted := int64(0), false
			switch {
			case at > second:
				want, wanted = second, true
			case at > first && at <= end:
				want, wanted = first, true
			}
			if since, ok := s.Alternate(at); ok != wanted || ok && since != want {
				t.Fatalf("cut at %d, at %d: %d, %v, want %d, %v", cut, at, since, ok, want, wanted)
			}
		}
	}
}

func TestApplicationKeys(t *testing.T) {
	for wrote, want := range map[string]bool{
		"": false, "\x1b[?1h\x1b=": true, "\x1b[?1h\x1b[?1l": false, "\x1b[?1;25h": true, "\x1b[?25;1h\x1b[?25l": true, "\x1b[?1h\x1b[?1049h\x1b[?1049l": true,
		"\x1b[1h": false, "\x1b[?11h": false, "\x1b[?1h\x1bc": false, "\x1b[?1h\x1b[31mc": true, "\x1b[?1h\x1b[?1$p": true,
	} {
		for cut := range len(wrote) + 1 {
			var s Switches
			s.Write([]byte(wrote[:cut]))
			state, err := json.Marshal(s)
			if err == nil {
				err = json.Unmarshal(state, &s)
			}
			s.Write([]byte(wrote[cut:]))
			if err != nil || s.ApplicationKeys() != want {
				t.Errorf("%q, cut at %d: %v, %v", wrote, cut, s.ApplicationKeys(), err)
			}
		}
	}
}

func TestManySwitches(t *testing.T) {
	var s Switches
	flood := strings.Repeat("\x1b[?1049h\x1b[?1049l\x1b[?"+strings.Repeat("1;", 100), 10_000)
	s.Write([]byte(flood))
	if len(s.all) > maxSwitches || cap(s.sequence) > 2*maxSequence {
		t.Errorf("%d switches, a sequence of %d", len(s.all), cap(s.sequence))
	}
	s.Write([]byte("\x1b[?1049h"))
	if since, ok := s.Alternate(int64(len(flood)) + 1); !ok || since != int64(len(flood)) {
		t.Errorf("%d, %v", since, ok)
	}
}

func BenchmarkSwitches(b *testing.B) {
	piece := []byte(strings.Repeat("\x1b[32mok\x1b[0m   some/package/name\t0.123s\r\n", 1500))
	b.SetBytes(int64(len(piece)))
	var s Switches
	for b.Loop() {
		s.Write(piece)
	}
}
