package secret

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestAStreamThatIsCut hides the same whether a stream goes on in another writer or not, wherever it is cut, and also where the beginning of a value was passed on.
func TestAStreamThatIsCut(t *testing.T) { synctest.Test(t, testAStreamThatIsCut) } // nothing is quiet for long

func testAStreamThatIsCut(t *testing.T) {
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
			t.Fatalf("%q is %q, and %q where it was cut", text.String(), whole.String(), cut.String())
		}
	}
	if cuts < 1000 {
		t.Fatalf("only %d cuts", cuts)
	}
}

// TestACutStreamGoesOn has a stream that was cut pass on what it holds when it goes on by itself after all, and one without anything to hide any more.
func TestACutStreamGoesOn(t *testing.T) {
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

// TestACutStreamPassesNothingOn has the moment come, as a stream is cut, at which what is held would be passed on by itself; and nothing goes on with a cut stream, which
// writes nothing.
func TestACutStreamPassesNothingOn(t *testing.T) {
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
