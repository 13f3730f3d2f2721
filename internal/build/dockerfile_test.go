package build

import (
	"slices"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/fault"
)

func TestDockerfileErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "",
		"RUN a":                              "line 1",
		"FROM a\nCOPY a":                     "line 2",
		"FROM a\n\nFRO b":                    "line 3",
		"FROM a AS 1":                        "line 1",
		"FROM a\nRUN <<E\nunterminated":      "",
		strings.Repeat("#", 2*MaxDockerfile): "",
		"FROM a\n" + strings.Repeat("ENV a=b\n", maxSteps): "",
	} {
		_, err := parse([]byte(text))
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: kind %q, %v", text, fault.KindOf(err), err)
		}
	}
}

func TestNeededStages(t *testing.T) {
	d, err := parse([]byte(`
FROM a AS one
FROM b AS two
COPY --from=one /x /x
FROM c
RUN --mount=type=bind,from=two cat
FROM d AS unused
FROM 2 AS last
COPY --from=image /y /y
`))
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string][]bool{
		"": {true, true, true, false, true}, "one": {true, false, false, false, false}, "Two": {true, true, false, false, false}, "3": {false, false, false, true, false},
	} {
		i, err := d.target(target)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.needed(i); !slices.Equal(got, want) {
			t.Errorf("%q: %v, not %v", target, got, want)
		}
	}
	if _, err := d.target("none"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("no such stage: %v", err)
	}
}

// TestStagesOfOneName checks that the last of several stages with a name counts.
func TestStagesOfOneName(t *testing.T) {
	d, err := parse([]byte("FROM a AS base\nFROM base AS x\nFROM b AS base\nFROM Base\n"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range map[int]int{1: 0, 3: 2} {
		if n, ok := d.earlier("base", i); !ok || n != want {
			t.Errorf("from stage %d: %d, %v", i, n, ok)
		}
	}
	if n, err := d.target("base"); err != nil || n != 2 {
		t.Errorf("target: %d, %v", n, err)
	}
}

func TestArguments(t *testing.T) {
	d, err := parse([]byte("ARG A=1\nARG B=x$A\nARG C\nFROM a:$B\nARG D\n"))
	if err != nil {
		t.Fatal(err)
	}
	scope, err := d.globalScope(map[string]string{"A": "2", "C": "3"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"A": "2", "B": "x2", "C": "3", "TARGETOS": "linux"} {
		if got, _ := scope.Get(name); got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
	if err := d.checkArgs(map[string]string{"D": "", "http_proxy": ""}, nil); err != nil {
		t.Error(err)
	}
	if err := d.checkArgs(map[string]string{"E": ""}, nil); fault.KindOf(err) != fault.Invalid {
		t.Errorf("an argument that is not declared: %v", err)
	}
}

func TestCompare(t *testing.T) {
	file := func(inode uint64) listing.Attributes { return listing.Attributes{Kind: listing.File, Inode: inode} }
	dir := func(inode uint64) listing.Attributes { return listing.Attributes{Kind: listing.Folder, Inode: inode} }
	before := inventory{
		".": dir(1), "a": dir(2), "a/same": file(3), "a/gone": file(4), "a/changed": file(5), "b": dir(6), "b/c": dir(7), "b/c/d": file(8), "e": dir(9), "e/f": file(10), "g": file(11),
	}
	after := inventory{".": dir(1), "a": dir(2), "a/same": file(3), "a/changed": file(50), "e": file(90), "g": dir(110), "g/h": file(12)}
	got := compare(before, after)
	if want := []string{".", "a", "a/changed", "e", "g", "g/h"}; !slices.Equal(got.changed, want) {
		t.Errorf("changed: %q, not %q", got.changed, want)
	}
	if want := []string{"a/gone", "b"}; !slices.Equal(got.removed, want) {
		t.Errorf("removed: %q, not %q", got.removed, want)
	}
	if same := compare(after, after); !same.empty() {
		t.Errorf("no change: %+v", same)
	}
}

func FuzzDockerfile(f *testing.F) {
	f.Add("FROM a\nRUN --mount=type=cache,target=/x <<E\na\nE\nCOPY --from=b <<F <<G /x\na\nF\nb\nG\n")
	f.Add("ARG A=${B:-c}\nFROM $A AS x\nONBUILD RUN a\nHEALTHCHECK --interval=1s CMD [\"a\"]\nSHELL [\"a\"]\n")
	f.Add("# escape=`\nFROM a\nRUN a `\n b\n")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parse([]byte(text))
		if err != nil {
			return
		}
		if _, err := d.globalScope(map[string]string{"A": "b"}); err != nil {
			return
		}
		for i := range d.stages {
			if needed := d.needed(i); !needed[i] {
				t.Errorf("stage %d does not need itself", i)
			}
		}
	})
}

func FuzzIgnore(f *testing.F) {
	f.Add("*.log\n!a\n**/x", "a/b/x")
	f.Fuzz(func(t *testing.T, text, name string) {
		if m, err := parseIgnore(text, "x"); err == nil {
			m.MatchesOrParentMatches(name)
		}
	})
}
