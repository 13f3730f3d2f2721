package danger

import (
	"embed"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

//go:embed testdata/*.txt
var tables embed.FS

// row is one line of a table.
type row struct {
	text string // the whole line, for use in messages
	at   Start
	to   string // the program that reads the typed keys
	line string // the command or the keys
}

// table reads one of the tables in testdata.
func table(t testing.TB, name string) (rows []row) {
	t.Helper()
	all, err := tables.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for text := range strings.Lines(string(all)) {
		text = strings.TrimSuffix(text, "\n")
		if text == "" || strings.HasPrefix(text, "# ") {
			continue
		}
		if seen[text] {
			t.Errorf("%s: twice: %s", name, text)
		}
		seen[text] = true
		r := row{text: text, line: strings.TrimPrefix(text, `\#`)}
		if r.line != text {
			r.line = "#" + r.line
		}
		r.prefix("{cwd ", func(v string) { r.at.Cwd = v })
		r.prefix("{to ", func(v string) { r.to = v })
		r.prefix("{env ", func(v string) {
			name, value, _ := strings.Cut(v, "=")
			r.at.Env = map[string]string{name: value}
		})
		r.line = strings.ReplaceAll(r.line, "⏎", "\n")
		rows = append(rows, r)
	}
	return rows
}

// prefix removes a prefix from the line and calls set with the value in the prefix. The value ends
// at the last brace that precedes a blank.
func (r *row) prefix(begin string, set func(string)) {
	rest, ok := strings.CutPrefix(r.line, begin)
	if !ok {
		return
	}
	if end := strings.LastIndex(rest, "} "); end >= 0 {
		set(rest[:end])
		r.line = rest[end+2:]
	}
}

// calls returns the keys in a row, with one element per call.
func (r row) calls(t testing.TB) (calls [][]byte) {
	t.Helper()
	for _, part := range strings.Split(r.line, "␤") {
		keys, err := strconv.Unquote(`"` + strings.ReplaceAll(part, `"`, `\"`) + `"`)
		if err != nil {
			t.Fatalf("%s: %v", r.text, err)
		}
		calls = append(calls, []byte(keys))
	}
	return calls
}

// asks returns the verdict for the first call that needs confirmation.
func (r row) asks(t testing.TB, rules *Rules) (v Verdict) {
	t.Helper()
	state := Typing(r.to)
	if r.to == "" {
		state = Typed{}
	}
	for _, keys := range r.calls(t) {
		if state, v = rules.Type(state, r.at, keys); v.Dangerous {
			return v
		}
	}
	return v
}

// share counts the rows with a wrong verdict. The test fails if their share is greater than the
// given limit, from 0 to 1.
func share(t *testing.T, what string, rows []row, most float64, wrong func(row) string) {
	t.Helper()
	n := 0
	for _, r := range rows {
		if why := wrong(r); why != "" {
			n++
			t.Logf("%s: %s %s", what, r.text, why)
		}
	}
	got := float64(n) / float64(len(rows))
	summary := fmt.Sprintf("%s: %d of %d, %.1f %%", what, n, len(rows), 100*got)
	t.Log(summary)
	if got > most {
		t.Errorf("%s: more than %.0f %%", summary, 100*most)
	}
}

// The limits for the tables. At most 5 % of the disguised commands are allowed to pass. At most 2 %
// of the ordinary commands are allowed to need confirmation.
const (
	mostPassed = 0.05
	mostAsked  = 0.02
)

func passes(v Verdict) string {
	if v.Dangerous {
		return ""
	}
	return "passes"
}

func asked(v Verdict) string { return strings.Join(v.Matches, "; ") }

func TestDisguised(t *testing.T) {
	r := rules(t, "")
	share(t, "disguised", table(t, "disguised.txt"), mostPassed, func(w row) string {
		return passes(r.Check(w.line, w.at))
	})
}

func TestOrdinary(t *testing.T) {
	r := rules(t, "")
	share(t, "ordinary", table(t, "ordinary.txt"), mostAsked, func(w row) string {
		return asked(r.Check(w.line, w.at))
	})
}

func TestGrammarDisguised(t *testing.T) {
	r := rules(t, "")
	share(t, "grammar, disguised", table(t, "grammar-disguised.txt"), 0.01, func(w row) string {
		return passes(r.Check(w.line, w.at))
	})
}

func TestGrammarOrdinary(t *testing.T) {
	r := rules(t, "")
	share(t, "grammar, ordinary", table(t, "grammar-ordinary.txt"), mostAsked, func(w row) string {
		return asked(r.Check(w.line, w.at))
	})
}

func TestTypedDisguised(t *testing.T) {
	r := rules(t, "")
	share(t, "typed", table(t, "typed.txt"), mostPassed, func(w row) string { return passes(w.asks(t, r)) })
}

func TestTypedOrdinary(t *testing.T) {
	r := rules(t, "")
	share(t, "keys", table(t, "keys.txt"), mostAsked, func(w row) string { return asked(w.asks(t, r)) })
}

func rules(t testing.TB, patterns string) *Rules {
	t.Helper()
	r, err := New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
