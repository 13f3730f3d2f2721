package layers

import (
	"cmp"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const top = "../.." // of the project

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(top, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var quoted = regexp.MustCompile("`([^`]+)`")

// row is one of the table of rooms: the folders that it is about, and what it says that they may import.
type row struct {
	folders []string
	may     string
}

// rows gives the table of rooms in docs/design.md.
func rows(t *testing.T) (all []row) {
	t.Helper()
	_, rooms, ok := strings.Cut(read(t, "docs/design.md"), "\n## Rooms\n")
	if !ok {
		t.Fatal("docs/design.md has no section on rooms")
	}
	rooms, _, _ = strings.Cut(rooms, "\n## ")
	for line := range strings.Lines(rooms) {
		if cells := strings.Split(line, "|"); len(cells) == 5 {
			all = append(all, row{names(cells[1]), cells[3]})
		}
	}
	return all
}

// names gives what is quoted in a text.
func names(text string) (all []string) {
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// TestDesignNamesEveryFolder holds the table of rooms in docs/design.md against the folders that hold Go code.
func TestDesignNamesEveryFolder(t *testing.T) {
	out, err := exec.Command("go", "list", module+"/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for pkg := range strings.Lines(string(out)) {
		folders = append(folders, cmp.Or(trim(strings.TrimSpace(pkg)), "."))
	}
	var named []string
	for _, r := range rows(t) {
		named = append(named, r.folders...)
	}
	for _, folder := range folders {
		if !slices.Contains(named, folder) {
			t.Errorf("%s is not in the table of rooms", folder)
		}
	}
	for _, name := range named {
		if !slices.Contains(folders, name) {
			t.Errorf("the table of rooms has %s, which holds no Go code", name)
		}
	}
}

// named tells whether a name in the table is a folder's, in whole or its last part. It is that folder's alone, not those' below it.
func named(folder, name string) bool { return folder == name || strings.HasSuffix(folder, "/"+name) }

// allows tells whether a row lets a folder import another.
func (r row) allows(from, to string) bool {
	says := func(phrase string) bool { return strings.Contains(r.may, phrase) }
	if strings.HasPrefix(to, from+"/") || slices.Contains(r.folders, to) || slices.ContainsFunc(names(r.may), func(name string) bool { return named(to, name) }) {
		return true
	}
	floor, room := place(to)
	switch {
	case says("all below"):
		return true // TestImportsRunDownwards looks at that
	case to == "":
		return says("package pyro")
	case strings.HasPrefix(floors[floor].reason, "the ground"):
		return says("the ground")
	case strings.HasPrefix(floors[floor].reason, "drivers"):
		return says("drivers")
	}
	return slices.Contains([]string{"internal/disk", "internal/agent", "internal/environment", "internal/machine"}, room) && says("what machines are made of")
}

// TestDesignSaysWhatFoldersImport holds what the table of rooms says that a folder may import, and what the ground is, against what is so.
func TestDesignSaysWhatFoldersImport(t *testing.T) {
	all := imports(t)
	for _, r := range rows(t) {
		for _, name := range names(r.may) {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(all)), func(folder string) bool { return named(folder, name) }) {
				t.Errorf("%v may import %s, which holds no Go code", r.folders, name)
			}
		}
		for _, from := range r.folders {
			for _, to := range all[strings.TrimPrefix(from, ".")] {
				if !r.allows(from, to) {
					t.Errorf("%s imports %s, and docs/design.md says that it may import%s", from, to, r.may)
				}
			}
		}
	}
	_, ground, _ := strings.Cut(read(t, "docs/design.md"), "\nThe ground is ")
	ground, _, _ = strings.Cut(ground, ". ")
	for _, room := range floors[0].rooms {
		if !slices.ContainsFunc(names(ground), func(name string) bool { return named(room, name) }) {
			t.Errorf("docs/design.md does not say that %s is of the ground", room)
		}
	}
}

// TestDocsNameTestsThatAre fails for a document that calls a test to witness that is not there.
func TestDocsNameTestsThatAre(t *testing.T) {
	there := map[string]bool{}
	err := filepath.WalkDir(top, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllStringSubmatch(string(b), -1) {
			there[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range documents(t) {
		for _, m := range regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w+)`").FindAllStringSubmatch(read(t, doc), -1) {
			if !there[m[1]] {
				t.Errorf("%s names %s, which is no test", doc, m[1])
			}
		}
	}
}

// TestLinksLead follows the links from one document to another.
func TestLinksLead(t *testing.T) {
	for _, doc := range documents(t) {
		for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(read(t, doc), -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(top, filepath.Dir(doc), target)); err != nil {
				t.Errorf("%s: %v", doc, err)
			}
		}
	}
}

func documents(t *testing.T) []string {
	t.Helper()
	docs, err := filepath.Glob(filepath.Join(top, "docs", "*.md"))
	if err != nil || len(docs) == 0 {
		t.Fatal(docs, err)
	}
	names := []string{"README.md", "CHANGELOG.md"}
	for _, doc := range docs {
		names = append(names, filepath.Join("docs", filepath.Base(doc)))
	}
	return names
}
