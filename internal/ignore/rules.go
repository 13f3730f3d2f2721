// Package ignore decides which paths of a tree its .gitignore files ignore, as git does.
//
// The text of a .gitignore may come from a machine, so it is bounded: see the limits below. What
// exceeds them ignores nothing, so that a hostile text hides less rather than more.
package ignore

import (
	"bytes"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// File is the name of the files with rules.
const File = ".gitignore"

// Limits.
const (
	MaxFile  = 256 << 10 // bytes of a file; a longer one has no rules
	MaxRules = 4096      // rules of a file; further ones do not count
	maxLine  = 1024      // bytes of a rule; a longer one does not count
)

// Rules are those of one file, in its order.
type Rules []rule

// rule is one line.
type rule struct {
	pattern  string // in the form of package doublestar
	literal  bool   // pattern has nothing but the characters that it stands for
	anchored bool   // pattern is about the path from the folder of the file, not about a name
	folders  bool   // it is about folders alone
	negated  bool   // it takes back what an earlier rule ignored
}

// Parse reads the text of a .gitignore. It knows no errors: git ignores lines that make no sense.
func Parse(text []byte) Rules {
	if len(text) > MaxFile {
		return nil
	}
	var all Rules
	for line := range bytes.Lines(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))) {
		if r, ok := parseRule(string(line)); ok && len(all) < MaxRules {
			all = append(all, r)
		}
	}
	return all
}

func parseRule(line string) (r rule, ok bool) {
	line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
	if strings.HasPrefix(line, "#") || len(line) > maxLine || strings.ContainsRune(line, 0) {
		return r, false
	}
	line = trimSpaces(line)
	line, r.negated = strings.CutPrefix(line, "!")
	line, r.folders = strings.CutSuffix(line, "/")
	r.anchored = strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return r, false
	}
	r.literal = !strings.ContainsAny(line, `*?[\`)
	if r.literal {
		r.pattern = line
		return r, true
	}
	r.pattern, ok = translate(line)
	return r, ok
}

// trimSpaces removes the spaces at the end of a line, but for one after a backslash.
func trimSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			i++
		}
		end = min(i+1, len(line))
	}
	return line[:end]
}

// match tells what a rule says of a path, which is relative to the folder of its file.
func (r *rule) match(path, name string, folder bool) bool {
	if r.folders && !folder {
		return false
	}
	if r.anchored {
		name = path
	}
	if r.literal {
		return r.pattern == name
	}
	return doublestar.MatchUnvalidated(r.pattern, name)
}
