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

// row is a line of a table.
type row struct {
	text string // as it is written, for people
	at   Place
	to   string // the command that reads what is typed
	line string // the rest
}

// table reads one of the tables.
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

// prefix takes a prefix with a value. The value ends at the last brace that a blank follows.
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

// calls are the keys of a row, one text a call.
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

// asks tells whether one of the calls of a row needs confirmation.
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

// share tells how many rows are not as they should be, and fails if there are too many.
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

// The aims: of what is disguised 5 % may pass, of what is ordinary 2 % may be asked for.
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
