// Package ignore decides which paths the .gitignore files of a tree ignore. It follows the rules of
// git.
//
// A .gitignore file can come from a machine, so the limits below apply. Input above a limit ignores
// nothing. Hostile input therefore excludes fewer paths, not more.
package ignore

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

// File is the name of files that contain rules.
const File = ".gitignore"

// Limits for .gitignore files.
const (
	MaxFile  = 256 << 10 // In bytes. Larger files have no rules.
	MaxRules = 4096      // Per file. Further rules have no effect.
	maxLine  = 1024      // In bytes. Longer rules have no effect.
)

// Rules contains the rules of one file, in the order of the file.
type Rules []rule

// rule is the rule in one line of a file.
type rule struct {
	pattern  string // In the syntax of package doublestar, and unless it is literal, in Latin-1.
	literal  bool   // The pattern has no special characters.
	anchored bool   // Matches the path relative to the file's directory, not only the name.
	folders  bool   // Matches only directories.
	negated  bool   // Cancels an earlier match.
}

// Parse parses the content of a .gitignore file. Like git, it skips malformed lines, so there are
// no errors.
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
	r.pattern, ok = translate(latin1(line))
	return r, ok
}

// trimSpaces removes trailing spaces. It does not remove a space after a backslash.
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

// match reports whether a rule matches a path. The path is relative to the directory of the rule's
// file.
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
	return doublestar.MatchUnvalidated(r.pattern, latin1(name))
}

// latin1 returns a text that has one character for each byte. git matches bytes, and package
// doublestar matches characters.
func latin1(text string) string {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			runes := make([]rune, len(text))
			for i := range len(text) {
				runes[i] = rune(text[i])
			}
			return string(runes)
		}
	}
	return text
}
