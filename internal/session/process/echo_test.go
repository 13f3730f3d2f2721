package process

import (
	"strings"
	"testing"
	"time"
)

// Line editors print these before their prompt and after a line.
const (
	on  = "\x1b[?2004h"
	off = "\x1b[?2004l\r"
)

// TestEchoes checks which parts of the output count as echoes. In each case, «…» is typed at
// that point of the output, and {…} is the expected echo.
func TestEchoes(t *testing.T) {
	long := strings.Repeat("x", 33)
	for name, c := range map[string]string{
		"terminal":                      "«ls x\n»{ls x\r\n}ls x\r\n",
		"two lines":                     "«ls x\nls y\n»{ls x\r\n}{ls y\r\n}ls x\r\nls y\r\n",
		"output comes first":            "«make\n»compiling\r\n{make\r\n}done make\r\n",
		"inside a word":                 "«ok\n»book\r\n{ok\r\n}",
		"not yet":                       "«done\n»compiling\r\n",
		"the beginning of it":           "«sleep 3; echo done\n»{sleep 3; ech}",
		"empty lines in an editor":      on + "... «x\n\n»{x\r\n" + off + "}" + "{" + on + "... \r\n" + off + "}" + on + ">>> ",
		"enter alone":                   "«\n»\r\n$ ",
		"shell":                         on + "$ «echo a\n»{echo a\r\n" + off + "}a\r\n" + on + "$ ",
		"shell, two lines":              on + "$ «echo a\necho b\n»{echo a\r\n" + off + "}a\r\n{" + on + "$ echo b\r\n" + off + "}b\r\n" + on + "$ ",
		"typed ahead":                   on + "$ «sleep 1\n»{sleep 1\r\n" + off + "}«echo a\n»{echo a\r\n}{" + on + "$ echo a\r\n" + off + "}a\r\n" + on + "$ ",
		"typed ahead, at once":          on + "$ «sleep 1\n»«echo a\n»{sleep 1\r\n" + off + "}{echo a\r\n}{" + on + "$ echo a\r\n" + off + "}a\r\n" + on + "$ ",
		"typed ahead, not yet":          on + "$ «sleep 1\n»{sleep 1\r\n" + off + "}«echo a\n»{echo a\r\n}{" + on + "$ echo}",
		"history":                       on + "$ «\x1b[A\r»{echo a\r\n" + off + "}a\r\n" + on + "$ ",
		"history, before Enter":         on + "$ «\x1b[A»echo a",
		"completion":                    on + "$ «git che\t»git checkout ",
		"a line in two parts":           on + "$ «echo »{echo «fin\n»fin\r\n" + off + "}fin\r\n",
		"a line in two parts, early":    "«echo »«fin\n»{echo fin\r\n}fin\r\n",
		"no line end":                   "> «yes»{yes}",
		"a longer answer":               "> «y»yes\r\n",
		"not at the beginning":          "> «y»\r\nokay\r\n",
		"at the right margin":           "$ «echo " + long + "xyz\n»{echo " + long + "x \ryz\r\n}xyz\r\n",
		"colours":                       "> «ls x\n»{\x1b[1mls\x1b[0m x\x1b[K\r\r\n}ls x\r\n",
		"redrawn":                       on + ">>> «def\n»{\x1b[4D>>> d\x1b[5D>>> de\x1b[6D>>> def\x1b[6D\n\r" + off + "}def\r\n" + on + ">>> ",
		"redrawn, not yet":              on + ">>> «def\n»{\x1b[4D>>> d\x1b[5D>>> de\x1b[6D}",
		"second prompt of an editor":    on + ">>> «def f():\n»{>>> def f():}\n... ",
		"full screen":                   "\x1b[?1049h" + on + "«ihello\x1b»-- INSERT --hello",
		"prompt of a shell that began":  on + "$ «cat\n»{cat\r\n" + off + "}«a\n»{a\r\n}a\r\n" + on + "$ ",
		"a line that equals the output": on + "$ «echo echo\n»{echo echo\r\n" + off + "}echo\r\n" + on + "$ «echo\n»{echo\r\n" + off + "}\r\n" + on + "$ echo",
	} {
		t.Run(name, func(t *testing.T) {
			var out, marked strings.Builder
			var typed []typedText
			for rest := c; rest != ""; {
				switch before, after, found := strings.Cut(rest, "«"); {
				case found:
					out.WriteString(strings.NewReplacer("{", "", "}", "").Replace(before))
					text, after, _ := strings.Cut(after, "»")
					typed = addTyped(typed, 100+int64(out.Len()), []byte(text))
					rest = after
				default:
					out.WriteString(strings.NewReplacer("{", "", "}", "").Replace(before))
					rest = ""
				}
			}
			at := int64(0)
			text := out.String()
			for _, r := range findEchoes([]byte(text), 100, typed) {
				from, to := max(r.From-100, at), r.To-100
				if to <= from {
					continue
				}
				marked.WriteString(text[at:from] + "{" + text[from:to] + "}")
				at = to
			}
			marked.WriteString(text[at:])
			var want strings.Builder
			for rest := c; rest != ""; {
				before, after, _ := strings.Cut(rest, "«")
				want.WriteString(before)
				_, rest, _ = strings.Cut(after, "»")
			}
			if marked.String() != want.String() {
				t.Errorf("\n%q, not\n%q", marked.String(), want.String())
			}
		})
	}
}

// TestEchoesOfHostileOutput checks that the search for echoes is bounded.
func TestEchoesOfHostileOutput(t *testing.T) {
	out := []byte(strings.Repeat("a", maxEchoDelay))
	typed := addTyped(nil, 0, []byte(strings.Repeat("a", maxTyped-2)+"b\n"))
	began := time.Now()
	findEchoes(out, 0, typed)
	findEchoes([]byte(strings.Repeat(on, 1<<15)), 0, typed)
	findEchoes([]byte(strings.Repeat(on+off, 1<<15)), 0, addTyped(nil, 0, []byte(strings.Repeat("a\n", maxTyped/2))))
	if d := time.Since(began); d > time.Minute {
		t.Errorf("it took %s", d)
	}
}

// FuzzEchoes checks that the search for echoes accepts all output.
func FuzzEchoes(f *testing.F) {
	f.Add([]byte(on+"$ echo a\r\n"+off+"a\r\n"), []byte("echo a\n"), 3, []byte("b\x03"), 30)
	f.Add([]byte(on+"... \r\n"+off), []byte("\n\n"), 0, []byte(""), 0)
	f.Add([]byte(on+"$ "), []byte("a"), 3, []byte("b\n"), 300)
	f.Fuzz(func(t *testing.T, out, first []byte, at int, second []byte, then int) {
		typed := addTyped(nil, int64(at), first)
		typed = addTyped(typed, int64(max(at, then)), second)
		for _, r := range findEchoes(out, 7, typed) {
			if r.From < 7 || r.To > 7+int64(len(out)) || r.From > r.To {
				t.Errorf("%+v", r)
			}
		}
	})
}
