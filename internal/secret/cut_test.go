package secret

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestCut checks that redaction does not change if another writer continues the stream. It cuts the
// stream at every position.
func TestCut(t *testing.T) { synctest.Test(t, testCut) } // runs in synctest, so that holdTimeout never passes

func testCut(t *testing.T) {
	random := testenv.Rand(t, 7)
	values := []string{"aaab", "abab", "aabaaabaa", "hunter2hunter3", "-----BEGIN KEY-----\nabcdef\n-----END KEY-----"}
	var all []Value
	for _, v := range values {
		all = append(all, New(v))
	}
	cuts := 0
	for range testenv.Rounds(500, 3000) {
		var text strings.Builder
		for range random.IntN(10) {
			v := values[random.IntN(len(values))]
			switch random.IntN(4) {
			case 0:
				text.WriteString(v[:random.IntN(len(v))])
			case 1:
				text.WriteString(strings.Join(strings.Split(v, ""), "\x1b[0m"))
			default:
				text.WriteString(strings.ReplaceAll(v, "\n", "\r\n"))
			}
		}
		var whole, cut bytes.Buffer
		one, other := NewRedactor(all...).Writer(&whole), NewRedactor(all...).Writer(&cut)
		for rest := text.String(); rest != ""; {
			n := 1 + random.IntN(min(len(rest), 9))
			one.Write([]byte(rest[:n]))
			other.Write([]byte(rest[:n]))
			rest = rest[n:]
			if random.IntN(4) == 0 {
				one.quiet()
				other.quiet()
			}
			if random.IntN(3) > 0 {
				continue
			}
			kept, err := json.Marshal(other.Cut())
			var c Cut
			if err != nil || json.Unmarshal(kept, &c) != nil {
				t.Fatalf("%s: %v", kept, err)
			}
			random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			other = NewRedactor(all...).Continue(&cut, c)
			cuts++
		}
		one.Close()
		other.Close()
		if whole.String() != cut.String() {
			t.Fatalf("%q: got %q in one piece, and %q in two", text.String(), whole.String(), cut.String())
		}
	}
	if cuts < 1000 {
		t.Fatalf("only %d cuts", cuts)
	}
}

// TestWriteAfterCut checks that the same writer can continue a stream after a cut, even if it has
// no values to redact.
func TestWriteAfterCut(t *testing.T) {
	var got bytes.Buffer
	w := NewRedactor(New("hunter2")).Writer(&got)
	w.Write([]byte("password: hun"))
	c := w.Cut()
	w.Write([]byte("gry"))
	w.Close()
	if got.String() != "password: hungry" {
		t.Errorf("%q", got.String())
	}
	got.Reset()
	(*Redactor)(nil).Continue(&got, c).Close()
	NewRedactor(New("hunter2")).Continue(&got, Cut{Held: []byte("x"), Hide: []Span{{-1, 1, false}, {0, 2, false}, {1, 0, false}}}).Close()
	if got.String() != "hunx" {
		t.Errorf("%q", got.String())
	}
}

// TestCutStopsTimer checks that a writer writes nothing after a cut, even if its timer fires at the
// same moment.
func TestCutStopsTimer(t *testing.T) {
	for _, r := range []*Redactor{NewRedactor(New("hunter2")), nil} {
		wrote := 0
		w := r.Writer(writer(func(b []byte) (int, error) { wrote++; return len(b), nil }))
		w.Write([]byte("h"))
		before := wrote
		w.Cut()
		w.quiet()
		w.Write(nil)
		if wrote != before {
			t.Errorf("it wrote %d times", wrote-before)
		}
		w.Close()
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
