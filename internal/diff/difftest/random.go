package difftest

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
)

// names contains difficult names: names that git quotes, names that look like patch syntax, and
// names that are prefixes of each other.
var names = []string{
	"a", "b", "x", "lib", "main.go", "README.md", "with space", " leading", "trailing ", "x b", "tab\tin", "new\nline", `quo"te`, `back\slash`, "ünï", "日本",
	"\xff\xfe", "-dash", "x.orig", "x~", "$(id)", "*", "null", "dev", "...", ".gitignore", "cr\r", "\x01\x7f", "a.b", "a-b", "b\x1b[31m", "@@ -1 +1 @@", "'",
}

// Random returns a random tree of at most size files.
func Random(r *rand.Rand, size int) Tree {
	t := Tree{}
	for range size {
		if p := t.newPath(r); p != "" {
			t.Put(p, node(r))
		}
	}
	return t
}

// newPath returns an unused path in an existing or possible directory. If it finds none, it returns
// "".
func (t Tree) newPath(r *rand.Rand) string {
	dir := ""
	if dirs := t.pick(r, fs.FileMode.IsDir); dirs != "" && r.IntN(2) == 0 {
		dir = dirs
	}
	for range r.IntN(3) {
		dir = path.Join(dir, names[r.IntN(len(names))])
	}
	p := path.Join(dir, name(r))
	for q := p; q != "."; q = path.Dir(q) {
		if n, ok := t[q]; ok && (q == p || !n.Mode.IsDir()) {
			return ""
		}
	}
	return p
}

func name(r *rand.Rand) string {
	if r.IntN(4) > 0 {
		return names[r.IntN(len(names))]
	}
	b := make([]byte, 1+r.IntN(8))
	for i := range b {
		for b[i] == 0 || b[i] == '/' {
			b[i] = byte(r.IntN(256))
		}
	}
	if name := string(b); name != "." && name != ".." {
		return name
	}
	return "dots"
}

// pick returns a random path whose mode satisfies the function right. If there is none, it returns
// "".
func (t Tree) pick(r *rand.Rand, right func(fs.FileMode) bool) string {
	var paths []string
	for _, p := range slices.Sorted(maps.Keys(t)) {
		if right(t[p].Mode) {
			paths = append(paths, p)
		}
	}
	if len(paths) == 0 {
		return ""
	}
	return paths[r.IntN(len(paths))]
}

func any(fs.FileMode) bool { return true }

func node(r *rand.Rand) Node {
	switch r.IntN(12) {
	case 0:
		return Node{Mode: fs.ModeDir | 0o755}
	case 1:
		return Node{Mode: fs.ModeSymlink | 0o777, Link: []string{"target", "../up", "a b", "li\nne", "\xff", "/etc/passwd", "."}[r.IntN(7)]}
	}
	return Node{Mode: []fs.FileMode{0o644, 0o644, 0o755, 0o600, 0o711, 0o664 | fs.ModeSetuid}[r.IntN(6)], Data: data(r)}
}

// data returns random file content.
func data(r *rand.Rand) []byte {
	switch r.IntN(10) {
	case 0:
		return nil
	case 1:
		b := make([]byte, r.IntN(3000))
		for i := range b {
			b[i] = byte(r.IntN(256))
		}
		return b
	case 2:
		return append([]byte("caf\xe9\n"), lines(r, "\n")...)
	case 3:
		return bytes.Repeat([]byte{0}, 1+r.IntN(5000))
	case 4:
		return lines(r, "\r\n")
	}
	return lines(r, "\n")
}

// lines returns a text with many repeated lines. Some texts do not end with a line break.
func lines(r *rand.Rand, end string) []byte {
	var b strings.Builder
	for range r.IntN(60) {
		b.WriteString(line(r) + end)
	}
	text := b.String()
	if r.IntN(4) == 0 {
		text = strings.TrimSuffix(text, end)
	}
	return []byte(text)
}

func line(r *rand.Rand) string {
	hard := []string{"", "", "}", "{", " ", "\t", "-- a/x", "++ b/x", "@@ -1 +1 @@", `\ No newline at end of file`, "diff --git a/x b/x", "-", "+", "lone\rcr", "ü"}
	if r.IntN(3) == 0 {
		return hard[r.IntN(len(hard))]
	}
	return fmt.Sprintf("line %d", r.IntN(40))
}

// Change returns a copy of a tree with random changes.
func Change(r *rand.Rand, before Tree, changes int) Tree {
	t := maps.Clone(before)
	for range changes {
		p := t.pick(r, any)
		if p == "" {
			t.Put("first", node(r))
			continue
		}
		switch n := t[p]; r.IntN(9) {
		case 0: // The new file can have another type.
			t.Remove(p)
			t.Put(p, node(r))
		case 1:
			t.Remove(p)
		case 2: // rename
			if q := t.newPath(r); q != "" && !strings.HasPrefix(q, p+"/") {
				for old, n := range maps.Clone(t) {
					if old == p || strings.HasPrefix(old, p+"/") {
						t.Put(q+strings.TrimPrefix(old, p), n)
					}
				}
				t.Remove(p)
			}
		case 3: // replace a directory by a file
			if p = t.pick(r, fs.FileMode.IsDir); p != "" {
				t.Remove(p)
				t.Put(p, Node{Mode: 0o644, Data: data(r)})
			}
		case 4: // replace a file by a directory
			if n.Mode.IsRegular() {
				t.Remove(p)
				t.Put(p+"/"+name(r), n)
			}
		case 5:
			if n.Mode.IsRegular() {
				n.Mode ^= 0o111
				t[p] = n
			}
		case 6:
			if q := t.newPath(r); q != "" {
				t.Put(q, node(r))
			}
		default:
			switch {
			case n.Mode.IsRegular():
				n.Data = edit(r, n.Data)
				t[p] = n
			case n.Mode&fs.ModeSymlink != 0:
				n.Link += []string{"/x", "~", " "}[r.IntN(3)]
				t[p] = n
			}
		}
	}
	return t
}

// edit returns a text with some changed lines.
func edit(r *rand.Rand, old []byte) []byte {
	all := slices.Collect(bytes.Lines(old))
	for range 1 + r.IntN(4) {
		at := 0
		if len(all) > 0 {
			at = r.IntN(len(all))
		}
		switch r.IntN(4) {
		case 0:
			all = slices.Insert(all, at, []byte(line(r)+"\n"))
		case 1:
			if len(all) > 0 {
				all = slices.Delete(all, at, at+1)
			}
		case 2:
			if len(all) > 0 {
				all[at] = []byte(line(r) + "\n")
			}
		case 3: // add or remove the last line break
			if text := bytes.Join(all, nil); bytes.HasSuffix(text, []byte("\n")) {
				return text[:len(text)-1]
			}
			all = append(all, []byte("\nlast\n"))
		}
	}
	return bytes.Join(all, nil)
}
