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

const top = "../.." // top folder of the project

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(top, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var quoted = regexp.MustCompile("`([^`]+)`")

// row is a row in the table of packages. It contains folders, and the imports that are allowed in
// these folders.
type row struct {
	folders []string
	may     string
}

// rows returns the table of packages in docs/design.md.
func rows(t *testing.T) (all []row) {
	t.Helper()
	_, section, ok := strings.Cut(read(t, "docs/design.md"), "\n## Packages\n")
	if !ok {
		t.Fatal("docs/design.md has no section Packages")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) == 5 {
			all = append(all, row{names(cells[1]), cells[3]})
		}
	}
	return all
}

// names returns the words in backquotes in a text.
func names(text string) (all []string) {
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// TestDesignNamesEveryFolder checks that the table of packages in docs/design.md lists all folders
// that contain Go code, and no others.
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
			t.Errorf("%s is not in the table of packages", folder)
		}
	}
	for _, name := range named {
		if !slices.Contains(folders, name) {
			t.Errorf("the table of packages has %s, which holds no Go code", name)
		}
	}
}

// named reports whether a name in the table refers to the folder. The name is the folder's path or
// the last element of the path. It does not refer to subfolders.
func named(folder, name string) bool { return folder == name || strings.HasSuffix(folder, "/"+name) }

// allows reports whether a row allows the first folder to import the second folder.
func (r row) allows(from, to string) bool {
	says := func(phrase string) bool { return strings.Contains(r.may, phrase) }
	if strings.HasPrefix(to, from+"/") || slices.Contains(r.folders, to) || slices.ContainsFunc(names(r.may), func(name string) bool { return named(to, name) }) {
		return true
	}
	layer, prefix := layerOf(to)
	switch {
	case says("all below"):
		return true // TestImportsRunDownwards checks these imports
	case to == "":
		return says("package pyro")
	case strings.HasPrefix(layers[layer].reason, "base packages"):
		return says("base packages")
	case strings.HasPrefix(layers[layer].reason, "drivers"):
		return says("drivers")
	}
	return slices.Contains([]string{"internal/disk", "internal/agent", "internal/environment", "internal/machine"}, prefix) && says("machine packages")
}

// TestDesignSaysWhatFoldersImport checks that the table of packages and the list of base packages
// in docs/design.md are consistent with the actual imports.
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
	_, base, _ := strings.Cut(read(t, "docs/design.md"), "\nThe base packages are ")
	base, _, _ = strings.Cut(base, ". ")
	for _, prefix := range layers[0].prefixes {
		if !slices.ContainsFunc(names(base), func(name string) bool { return named(prefix, name) }) {
			t.Errorf("docs/design.md does not say that %s is a base package", prefix)
		}
	}
}

// TestDocsNameExistingTests checks that all tests that documents name exist.
func TestDocsNameExistingTests(t *testing.T) {
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
				t.Errorf("%s names %s, which does not exist", doc, m[1])
			}
		}
	}
}

// TestLinks checks that the targets of links between documents exist.
func TestLinks(t *testing.T) {
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
