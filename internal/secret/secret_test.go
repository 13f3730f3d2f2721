package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestValueIsNeverPrinted(t *testing.T) {
	const text = "correct horse"
	s := Secret{"A", Literal, New(text)}
	hidden := struct{ inner, unused Secret }{inner: s}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Error("x", "value", s.Value, "secret", s, "hidden", hidden)
	slog.New(slog.NewJSONHandler(&log, nil)).Error("x", "value", s.Value, "secret", s)
	coded, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	all := fmt.Sprint(s, s.Value, &s, hidden, []Value{s.Value}) + fmt.Sprintf("%v %+v %#v %s %q %x %d %#v %x", s.Value, s, s, s.Value, s.Value, s.Value, s.Value, hidden, hidden) +
		log.String() + string(coded) + fmt.Errorf("%v", s).Error()
	if strings.Contains(all, "horse") || strings.Contains(all, fmt.Sprintf("%x", text)) {
		t.Errorf("it is in %s", all)
	}
	if s.Value.Reveal() != text || (Value{}).Reveal() != "" {
		t.Error("Reveal returns another text")
	}
}

func TestCheck(t *testing.T) {
	for name, ok := range map[string]bool{
		"A": true, "_a1": true, strings.Repeat("A", 64): true, "": false, "1A": false, "A-B": false, "A=B": false, "É": false, "A\n": false, strings.Repeat("A", 65): false,
	} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
	for text, ok := range map[string]bool{
		"x": true, strings.Repeat("x", MaxBytes): true, "line\nline": true, "": false, strings.Repeat("hidden", MaxBytes): false, "hidden\xff": false, "hidden\x00": false,
	} {
		err := Secret{"A", Literal, New(text)}.Check()
		if (err == nil) != ok || err != nil && (fault.KindOf(err) != fault.Invalid || strings.Contains(err.Error(), "hidden")) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

func TestSealing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	key, err := OpenKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := Secret{"TOKEN", File, New("correct horse")}
	sealed := key.Seal("ws-1", s)
	if bytes.Contains(sealed, []byte("horse")) || bytes.Equal(sealed, key.Seal("ws-1", s)) {
		t.Errorf("sealed: %q", sealed)
	}
	again, err := OpenKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	bare := Secret{Name: "TOKEN", Source: File}
	if got, err := again.Open("ws-1", bare, sealed); err != nil || got.Value.Reveal() != "correct horse" {
		t.Errorf("%q, %v", got.Value.Reveal(), err)
	}
	other, err := OpenKey(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func() (Secret, error){
		"another key":    func() (Secret, error) { return other.Open("ws-1", bare, sealed) },
		"another owner":  func() (Secret, error) { return key.Open("ws-2", bare, sealed) },
		"another name":   func() (Secret, error) { return key.Open("ws-1", Secret{Name: "T", Source: File}, sealed) },
		"another source": func() (Secret, error) { return key.Open("ws-1", Secret{Name: "TOKEN", Source: Literal}, sealed) },
		"cut":            func() (Secret, error) { return key.Open("ws-1", bare, sealed[:len(sealed)-1]) },
		"nothing":        func() (Secret, error) { return key.Open("ws-1", bare, nil) },
	} {
		if got, err := open(); fault.KindOf(err) != fault.Corrupt || got.Value.Reveal() != "" {
			t.Errorf("%s: %q, %v", name, got.Value.Reveal(), err)
		}
	}
}

func TestKeyFile(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenKey(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, keyFile)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left: %v", entries)
	}
	os.Chmod(path, 0o640)
	if _, err := OpenKey(dir); fault.KindOf(err) != fault.Permission {
		t.Errorf("file that other users can read: got %v", err)
	}
	os.Chmod(path, 0o600)
	os.Truncate(path, 5)
	if _, err := OpenKey(dir); fault.KindOf(err) != fault.Corrupt {
		t.Errorf("one that was cut: %v", err)
	}
}

func TestConcurrentOpenKey(t *testing.T) {
	dir := t.TempDir()
	sealed, s := make(chan []byte), Secret{"A", Literal, New("text")}
	for range 20 {
		go func() {
			key, err := OpenKey(dir)
			if err != nil {
				t.Error(err)
				sealed <- nil
				return
			}
			sealed <- key.Seal("o", s)
		}()
	}
	key, err := OpenKey(dir)
	for range 20 {
		one := <-sealed
		if err != nil {
			continue
		}
		if _, err := key.Open("o", Secret{Name: "A", Source: Literal}, one); err != nil {
			t.Error(err)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

func TestText(t *testing.T) {
	r := NewRedactor(New("hunter2"), New("hunter2hunter2"), New("correct horse\nbattery staple\n"), New("abc"), New("  padded  "))
	for in, want := range map[string]string{
		"":                                   "",
		"hunter":                             "hunter",
		"xhunter2y":                          "x[REDACTED]y",
		"hunter2hunter2":                     "[REDACTED]",
		"hunter2 hunter2":                    "[REDACTED] [REDACTED]",
		"hunthunter2":                        "hunt[REDACTED]",
		"correct horse\r\nbattery staple":    "[REDACTED]",
		"correct horse\nbattery staple\n":    "[REDACTED]\n",
		"correct horse":                      "correct horse",
		"abc is too short to be hidden":      "abc is too short to be hidden",
		"a padded one":                       "a [REDACTED] one",
		"Hunter2 is not it, nor is h u n t.": "Hunter2 is not it, nor is h u n t.",
	} {
		if got := r.Text(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := (*Redactor)(nil).Text("hunter2"); got != "hunter2" {
		t.Error(got)
	}
	if got := NewRedactor().Text("hunter2"); got != "hunter2" {
		t.Error(got)
	}
}

// TestBase64 checks that encoded values are found at every offset, in both alphabets, and when they
// are split into lines.
func TestBase64(t *testing.T) {
	const value = "s3cr3t/?>>value\xc3\xbf\xc3\xbf"
	r := NewRedactor(New(value))
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding} {
		for before := range 10 {
			for after := range 4 {
				coded := e.EncodeToString([]byte(strings.Repeat("b", before) + value + strings.Repeat("a", after)))
				for _, width := range []int{0, 5, 76} {
					for _, end := range []string{"\n", "\r\n"} {
						got := r.Text(cut(coded, width, end))
						if !strings.Contains(got, Hidden) || len(got) > len(Hidden)+(before+after+8)*2 {
							t.Errorf("%d before, %d after, lines of %d: %q is left of %q", before, after, width, got, coded)
						}
					}
				}
			}
		}
	}
}

func cut(s string, width int, end string) string {
	var b strings.Builder
	for width > 0 && len(s) > width {
		b.WriteString(s[:width] + end)
		s = s[width:]
	}
	return b.String() + s
}

// streamed writes a text to a new stream, closes the stream, and returns the redacted text.
func streamed(r *Redactor, text string) string {
	var b strings.Builder
	w := r.Writer(&b)
	io.WriteString(w, text)
	w.Close()
	return b.String()
}

// TestCutAnywhere checks that the redaction of a stream does not depend on how the stream is split
// into writes.
func TestCutAnywhere(t *testing.T) { synctest.Test(t, testCutAnywhere) } // runs in synctest, so that holdTimeout never passes

func testCutAnywhere(t *testing.T) {
	random := testenv.Rand(t, 3)
	values := []string{"aaab", "abab", "aabaaabaa", "hunter2", "-----BEGIN KEY-----\nabcdef\n-----END KEY-----"}
	var all []Value
	for _, v := range values {
		all = append(all, New(v))
	}
	r := NewRedactor(all...)
	for range 2000 {
		var text strings.Builder
		for range random.IntN(12) {
			v := values[random.IntN(len(values))]
			switch random.IntN(5) {
			case 0:
				text.WriteString(strings.Repeat("ab\n"[random.IntN(3):][:1], random.IntN(6)))
			case 1:
				text.WriteString(v[:random.IntN(len(v))])
			case 2:
				text.WriteString(base64.StdEncoding.EncodeToString([]byte("x" + v)))
			default:
				text.WriteString(strings.ReplaceAll(v, "\n", "\r\n"))
			}
		}
		whole := text.String()
		want := streamed(r, whole)
		for _, v := range values {
			if strings.Contains(strings.ReplaceAll(want, "\r", ""), v) {
				t.Fatalf("%q is in %q", v, want)
			}
		}
		var got bytes.Buffer
		w := r.Writer(&got)
		for rest := whole; rest != ""; {
			n := 1 + random.IntN(min(len(rest), 9))
			w.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		w.Close()
		if got.String() != want {
			t.Fatalf("%q is %q in pieces, %q whole", whole, got.String(), want)
		}
	}
}

// TestPromptIsNotDelayed checks that after a pause, one byte of a possible value is written, but no
// second byte.
func TestPromptIsNotDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got bytes.Buffer
		w := NewRedactor(New("$ecret of much length")).Writer(&got)
		expect := func(want string) {
			t.Helper()
			synctest.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			if got.String() != want {
				t.Errorf("%q, want %q", got.String(), want)
			}
		}
		io.WriteString(w, "prompt $")
		expect("prompt ")
		time.Sleep(holdTimeout)
		expect("prompt $")
		io.WriteString(w, "ecret of much")
		time.Sleep(holdTimeout * 10)
		expect("prompt $")
		io.WriteString(w, " length!")
		expect("prompt $[REDACTED]!")
		io.WriteString(w, "$ecret of")
		w.Close()
		expect("prompt $[REDACTED]![REDACTED]")
	})
}

// TestSlowlyPrinted prints values byte by byte with pauses. At most one byte of a value must be
// shown, even if the program ends within the value.
func TestSlowlyPrinted(t *testing.T) {
	const value = "s3cr3t-of-some-length-0123456789"
	coded := base64.StdEncoding.EncodeToString([]byte(value))
	for name, c := range map[string]struct {
		text  string
		shown int
	}{
		"plain": {value, 1}, "base64": {coded, 3}, "in colours": {strings.Join(strings.Split(value, ""), "\x1b[31m"), 1 + len("\x1b[31m")},
		"half": {value[:len(value)/2], 1}, "base64, half": {coded[:len(coded)/2], 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			for _, pause := range []time.Duration{0, holdTimeout - 1, holdTimeout + 1, time.Hour} {
				var got bytes.Buffer
				w := NewRedactor(New(value)).Writer(&got)
				io.WriteString(w, "> ")
				for _, b := range []byte(c.text) {
					w.Write([]byte{b})
					time.Sleep(pause)
					synctest.Wait()
				}
				seen := len(strings.ReplaceAll(got.String(), Hidden, ""))
				w.Close()
				if text := got.String(); seen > len("> ")+c.shown || !strings.Contains(text, Hidden) || strings.Contains(text, c.text[:len(c.text)/4]) {
					t.Errorf("%s, %v apart: %d bytes are shown meanwhile, %q at last", name, pause, seen, text)
				}
			}
		})
	}
}

// TestControlSequencesWithin checks that values are found even if there are control sequences
// between their characters.
func TestControlSequencesWithin(t *testing.T) {
	const value = "hunter2hunter3"
	r := NewRedactor(New(value))
	coded := base64.StdEncoding.EncodeToString([]byte(value))
	for _, between := range []string{"\x1b[31m", "\x1b[0;1;38;5;7m\x1b[K", "\x1b]0;title\x07", "\x1b]8;;http://a.b\x1b\\", "\x1b(B", "\x0f", "\x00", "\x1b[3\r1m", "\x1b7"} {
		for _, text := range []string{value, coded} {
			for _, n := range []int{1, 3} {
				var b strings.Builder
				for i := 0; i < len(text); i += n {
					b.WriteString(text[i:min(i+n, len(text))] + between)
				}
				got := r.Text("before " + b.String() + " after")
				if !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") || strings.Count(got, Hidden) != 1 || len(got) > len("before  after")+len(Hidden)+3*(len(between)+4) {
					t.Errorf("%q between every %d: %q", between, n, got)
				}
			}
		}
	}
	// Unterminated control sequences, and sequences that contain the value, must not prevent a
	// match.
	for _, before := range []string{"\x1b[", "\x1b]0;", "\x1b", "\x1bP", strings.Repeat("\x1b", 2000)} {
		if got := r.Text(before + value); strings.Contains(got, value) {
			t.Errorf("behind %q: %q", before, got)
		}
	}
}

func TestFlood(t *testing.T) {
	flood(t, MaxBytes, "\r", "\n", "\r\n", "0", "\x1b[31m", "\x1b]", "\x00")
	// A value can begin in each piece, so the time is quadratic in the length.
	flood(t, testenv.Rounds(MaxBytes/4, MaxBytes), "0123456789abcdef")
}

// flood writes the beginning of a value that has the given size, followed by many copies of each
// piece.
func flood(t *testing.T, size int, pieces ...string) {
	value := strings.Repeat("0123456789abcdef", size/16)
	var n counter
	w := NewRedactor(New(value)).Writer(&n)
	for _, piece := range pieces {
		io.WriteString(w, value[:100])
		io.WriteString(w, base64.StdEncoding.EncodeToString([]byte(value[:100])))
		for range 4 { // with shorter pieces, each write would search all buffered bytes
			io.WriteString(w, strings.Repeat(piece, size*7/8/len(piece)))
		}
		w.mu.Lock() // the timer could be writing buffered bytes
		held := len(w.held)
		w.mu.Unlock()
		if held > 3*size {
			t.Errorf("%d bytes are held of many %q", held, piece)
		}
	}
	w.Close()
}

type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

func TestWriteError(t *testing.T) {
	broken := errors.New("broken")
	w := NewRedactor(New("hunter2")).Writer(writerFunc(func([]byte) (int, error) { return 0, broken }))
	if _, err := io.WriteString(w, "text"); !errors.Is(err, broken) {
		t.Error(err)
	}
	if err := w.Close(); !errors.Is(err, broken) {
		t.Error(err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func BenchmarkRedact(b *testing.B) {
	w := NewRedactor(New("hunter2hunter2"), New("correct horse battery staple")).Writer(io.Discard)
	piece := []byte(strings.Repeat("ok   some/package/name\t0.123s hunter\r\n", 800))
	b.SetBytes(int64(len(piece)))
	for b.Loop() {
		w.Write(piece)
	}
	w.Close()
}

func FuzzRedact(f *testing.F) {
	f.Add("hunter2", "a hunter2 b", uint8(3))
	f.Add("aabaaab", "aabaabaaab\r\n", uint8(1))
	f.Add("hunter2", "h\x1b[31mu\x1b]0;x\x07nter\x002", uint8(2))
	f.Fuzz(func(t *testing.T, value, text string, n uint8) {
		r := NewRedactor(New(value))
		var got bytes.Buffer
		w := r.Writer(&got)
		for rest := text; rest != ""; {
			k := min(len(rest), 1+int(n))
			w.Write([]byte(rest[:k]))
			rest = rest[k:]
		}
		w.Close()
		if want := streamed(r, text); got.String() != want {
			t.Errorf("%q in pieces, %q whole", got.String(), want)
		}
	})
}

// TestUse checks that the previous values are still redacted if values are added at any position of
// the stream.
func TestUse(t *testing.T) {
	one, both := NewRedactor(New("aabaaab")), NewRedactor(New("aabaaab"), New("baab!ccc"))
	const text = "aab aabaaab aabaaabaaab xaabaab\r\n YWFiYWFhYg== aabaaab"
	for cut := range len(text) + 1 {
		var got bytes.Buffer
		w := one.Writer(&got)
		w.Write([]byte(text[:cut]))
		w.Use(both)
		w.Write([]byte(text[cut:] + "baab!ccc."))
		w.Close()
		if want := both.Text(text + "baab!ccc."); got.String() != want {
			t.Errorf("from %d on: %q, want %q", cut, got.String(), want)
		}
	}
	var got bytes.Buffer
	w := (*Redactor)(nil).Writer(&got)
	w.Write([]byte("baab!ccc, "))
	w.Use(both)
	w.Write([]byte("baab!ccc"))
	w.Close()
	if got.String() != "baab!ccc, "+Hidden {
		t.Error(got.String())
	}
}
