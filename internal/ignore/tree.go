package ignore

import (
	"path"
	"strings"
)

// Tree decides on the paths of one tree, by the .gitignore files in it.
type Tree struct {
	// Read gives the text of the .gitignore in a folder, "" for the root; nil where there is none.
	Read func(folder string) ([]byte, error)
	// Outer are the rules of files outside of the tree, the weakest first.
	Outer []Rules
	// Tests bounds how often a rule is compared with a path; after that nothing is ignored. 0: it
	// is not bounded.
	Tests int64

	tested int64
	levels []level // of the folder that was last asked about: the root, then each folder on the way
}

// level is what applies in one folder.
type level struct {
	folder  string // "" for the root
	ignored bool   // with all that is in it
	rules   Rules
}

// Ignored tells whether a path is ignored: by itself, or with a folder above it. Paths that come in
// depth-first order cost the least: each .gitignore is read once then. The error is that of Read.
func (t *Tree) Ignored(name string, folder bool) (bool, error) {
	above := path.Dir(name)
	if above == "." {
		above = ""
	}
	if err := t.enter(above); err != nil {
		return false, err
	}
	return t.decide(name, folder), nil
}

// enter makes levels those of a folder.
func (t *Tree) enter(folder string) error {
	for len(t.levels) > 0 && !within(t.levels[len(t.levels)-1].folder, folder) {
		t.levels = t.levels[:len(t.levels)-1]
	}
	if len(t.levels) == 0 {
		if err := t.push(level{}); err != nil {
			return err
		}
	}
	for {
		at := t.levels[len(t.levels)-1].folder
		if at == folder {
			return nil
		}
		rest := strings.TrimPrefix(folder[len(at):], "/")
		name, _, _ := strings.Cut(rest, "/")
		next := path.Join(at, name)
		if err := t.push(level{folder: next, ignored: t.decide(next, true)}); err != nil {
			return err
		}
	}
}

// push adds a level. The rules in a folder that is ignored do not count.
func (t *Tree) push(l level) error {
	if !l.ignored {
		text, err := t.Read(l.folder)
		if err != nil {
			return err
		}
		l.rules = Parse(text)
	}
	t.levels = append(t.levels, l)
	return nil
}

// decide tells whether a path in the last level is ignored. The last rule of the nearest file that
// matches decides.
func (t *Tree) decide(name string, folder bool) bool {
	if t.levels[len(t.levels)-1].ignored {
		return true
	}
	base := path.Base(name)
	for i := len(t.levels) - 1; i >= 0; i-- {
		l := t.levels[i]
		if ignored, matched := t.ask(l.rules, strings.TrimPrefix(name[len(l.folder):], "/"), base, folder); matched {
			return ignored
		}
	}
	for i := len(t.Outer) - 1; i >= 0; i-- {
		if ignored, matched := t.ask(t.Outer[i], name, base, folder); matched {
			return ignored
		}
	}
	return false
}

func (t *Tree) ask(rules Rules, name, base string, folder bool) (ignored, matched bool) {
	if t.tested += int64(len(rules)); t.Tests > 0 && t.tested > t.Tests {
		return false, false
	}
	for i := len(rules) - 1; i >= 0; i-- {
		if rules[i].match(name, base, folder) {
			return !rules[i].negated, true
		}
	}
	return false, false
}

// within tells whether a folder is another one, or in it.
func within(above, folder string) bool {
	return above == "" || folder == above || strings.HasPrefix(folder, above+"/")
}
