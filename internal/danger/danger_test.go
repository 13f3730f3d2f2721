package danger

import (
	"strings"
	"testing"
)

func rules(t testing.TB, patterns string) *Rules {
	t.Helper()
	r, err := New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDangerous(t *testing.T) {
	r := rules(t, "")
	seen := map[string]bool{}
	for _, table := range [][]string{published, bypasses, effects} {
		for _, command := range table {
			if seen[command] {
				t.Errorf("%q is there twice", command)
			}
			seen[command] = true
			v := r.Check(command)
			if !v.Dangerous || len(v.Matches) == 0 {
				t.Errorf("not found dangerous: %q", command)
			}
			if v.Unparsed {
				t.Errorf("found by not being understood: %q: %q", command, v.Matches)
			}
		}
	}
	if n := len(bypasses); n < 60 {
		t.Errorf("%d bypasses of our own", n)
	}
}

func TestOrdinary(t *testing.T) {
	r := rules(t, "")
	for _, command := range ordinary {
		if v := r.Check(command); v.Dangerous {
			t.Errorf("asks for confirmation: %q: %q", command, v.Matches)
		}
	}
	if n := len(ordinary); n < 120 {
		t.Errorf("%d ordinary commands", n)
	}
}

// TestNotParsed has what needs confirmation because nobody here can read it.
func TestNotParsed(t *testing.T) {
	r := rules(t, "")
	for _, command := range []string{
		"echo 'open", "echo \"open", "if true; then", "echo $(", "((", "a b )", "cat <<EOF", "foo() {", "${", "case x in",
		strings.Repeat("(", 60) + "ls" + strings.Repeat(")", 60),
		strings.Repeat("if true; then ", 2000) + "ls" + strings.Repeat("; fi", 2000),
		strings.Repeat("x", MaxCommand+1),
		strings.Repeat("sudo ", 200) + "ls",
		strings.Repeat("eval ", 200) + "ls",
		strings.Repeat("ls; ", 15000),
		"echo " + strings.Repeat("{a,b}", 14),
	} {
		v := r.Check(command)
		if !v.Dangerous || !v.Unparsed || len(v.Matches) == 0 {
			t.Errorf("%.60q: %+v", command, v)
		}
	}
}

func TestWhatVerdictsTell(t *testing.T) {
	r := rules(t, "")
	v := r.Check(strings.Repeat("rm -rf /a\x1b]0;x\a ; ", 40) + strings.Repeat("mv /etc/é"+strings.Repeat("é", 300)+" /dev/null; ", 3))
	if len(v.Matches) == 0 || len(v.Matches) > maxMatches {
		t.Errorf("%d matches", len(v.Matches))
	}
	for _, m := range v.Matches {
		if len(m) > maxMatch || strings.ContainsAny(m, "\x1b\a\n") {
			t.Errorf("match %q", m)
		}
	}
	if v := r.Check("ls"); v.Dangerous || v.Unparsed || v.Matches != nil {
		t.Errorf("%+v", v)
	}
	long := make([]string, 0)
	for i := range 40 {
		long = append(long, "mv /etc"+strings.Repeat("x", i)+" /dev/null")
	}
	if v := r.Check(strings.Join(long, "\n")); len(v.Matches) != maxMatches {
		t.Errorf("%d matches", len(v.Matches))
	}
}

func TestLongerThanIsParsedIsStillMatched(t *testing.T) {
	v := rules(t, "").Check("reboot " + strings.Repeat("x", MaxCommand))
	if !v.Unparsed || len(v.Matches) != 2 {
		t.Errorf("%+v", v)
	}
}
