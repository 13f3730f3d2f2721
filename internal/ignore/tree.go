package ignore

import (
	"path"
	"strings"
)

// Tree evaluates the .gitignore files of one tree.
type Tree struct {
	// Read returns the content of the .gitignore file in a directory, or nil if there is none. The
	// path of the root is "".
	Read func(folder string) ([]byte, error)
	// Outer contains rules from outside of the tree. Later rules have precedence.
	Outer []Rules
	// Tests limits the number of comparisons of rules with paths. After that number, nothing more
	// is ignored. 0 means no limit.
	Tests int64

	tested int64
	levels []level // levels from the root to the directory of the last call
}

// level contains the rules of one directory.
type level struct {
	folder  string // "" for the root
	ignored bool   // The directory and everything below it are ignored.
	rules   Rules
}

// Ignored reports whether a path, or a directory above it, is ignored. Calls in depth-first order
// are the fastest, because Ignored then reads each .gitignore file only once. Errors come from
// Read.
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

// enter sets levels to the levels of a directory and its parents.
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

// push adds a level. If the directory is ignored, push does not read its rules.
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

// decide reports whether a path in the directory of the last level is ignored. The nearest file
// with a matching rule decides. If several rules of that file match, the last one counts.
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

// within reports whether a directory equals the first argument or is below it.
func within(above, folder string) bool {
	return above == "" || folder == above || strings.HasPrefix(folder, above+"/")
}
