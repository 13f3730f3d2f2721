package ptymcp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"
)

// agree checks that the automaton agrees with package regexp.
func agree(t *testing.T, pattern string, text []byte) {
	t.Helper()
	e, err := newExpression(pattern)
	if err != nil {
		return
	}
	re := regexp.MustCompile(pattern)
	want := re.FindIndex(text)
	end, ok := e.firstEnd(text)
	if !ok {
		return
	}
	if (want != nil) != (end >= 0) {
		t.Fatalf("%q in %q: ends at %d, but %v", pattern, text, end, want)
	}
	if end >= 0 && (end > len(text) || want[1] < end) {
		t.Fatalf("%q in %q: ends at %d first, but %v", pattern, text, end, want)
	}
	if got := e.find(text); fmt.Sprint(got) != fmt.Sprint(want) && len(text) <= maxWindow {
		t.Fatalf("%q in %q: %v, not %v", pattern, text, got, want)
	}
}

var scanSeeds = []struct{ pattern, text string }{
	{`[$#>] $`, "a $ b\r\nuser@host:~$ "}, {`^a`, "ba\na"}, {`(?m)^a$`, "ba\na\nb"}, {`\bfoo\b`, "xfoo foox foo."}, {`\Bx`, "x ax"}, {`(?i)pass(word)?:`, "PASSWORD: "},
	{`日+本`, "日日日本語"}, {`.`, "\xff\xfe"}, {`[^a]`, "aaé"}, {``, ""}, {`$`, "ab"}, {`\z`, "a\n"}, {`a*?b`, "aaab"}, {`(a|ab)(c|bcd)`, "abcd"}, {`x{3,5}y`, "xxxxxxy"},
	{`(?s)a.*b`, "a\nb\nb"}, {`\d+ passed`, "12 failed, 3 passed"}, {`(?:)`, "x"}, {`[[:^ascii:]]`, "aé"}, {`\A\s*$`, "  \n"},
}

func TestScanMatchesRegexp(t *testing.T) {
	for _, s := range scanSeeds {
		agree(t, s.pattern, []byte(s.text))
	}
}

func FuzzScan(f *testing.F) {
	for _, s := range scanSeeds {
		f.Add(s.pattern, []byte(s.text))
	}
	f.Fuzz(func(t *testing.T, pattern string, text []byte) {
		if len(pattern) < 200 && len(text) < 2000 {
			agree(t, pattern, text)
		}
	})
}

// TestScanLongText searches matches near the end of a long text, and checks where they begin.
func TestScanLongText(t *testing.T) {
	line := "2026 INFO some/module.go:123 compiling number 42 with 日本 and 3 > 2 options\r\n"
	much := bytes.Repeat([]byte(line), (1<<20)/len(line))
	for _, pattern := range []string{`[$#>] $`, `(?m)^\S+@\S+:.*\$ $`, `user@.*\$ `, `(?i)USER`, `(\w+)@`, `(a|b|u)*ser@[a-z]{4}`} {
		e, err := newExpression(pattern)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		got := e.find(append(much[:len(much):len(much)], "user@host:~$ "...))
		t.Log(pattern, time.Since(began))
		if got == nil || got[0] < len(much) || got[1] <= got[0] {
			t.Errorf("%s: %v", pattern, got)
		}
	}
	// These patterns need very many states or have long matches.
	random := rand.New(rand.NewPCG(1, 1))
	text := make([]byte, 1<<17)
	for i := range text {
		text[i] = "ab"[random.IntN(2)]
	}
	for pattern, text := range map[string]string{
		`a(?:a|b){14}c`: string(text) + "a" + string(text[:14]) + "c", `b(?s:.*)e`: "b" + strings.Repeat("x", 1<<17) + "e",
	} {
		e, err := newExpression(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.find([]byte(text)); got == nil || got[1] != len(text) {
			t.Errorf("%s: %v", pattern, got)
		}
	}
}
