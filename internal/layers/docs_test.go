package layers

import (
	"cmp"
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
	_, rooms, ok := strings.Cut(read(t, "docs/design.md"), "\n## Rooms\n")
	if !ok {
		t.Fatal("docs/design.md has no section on rooms")
	}
	rooms, _, _ = strings.Cut(rooms, "\n## ")
	var named []string
	for line := range strings.Lines(rooms) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
				named = append(named, m[1])
			}
		}
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
