package project

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"unicode/utf8"
)

// Head tells what a folder has checked out, as BRANCH@COMMIT, or COMMIT where no branch is. It is "" where the folder is no checkout, or says it in a way that
// is not known.
func Head(folder string) string {
	dir := gitDir(folder)
	head := strings.TrimSpace(read(filepath.Join(dir, "HEAD"), 1<<10))
	ref, symbolic := strings.CutPrefix(head, "ref: ")
	if !symbolic {
		return commit(head)
	}
	branch, ok := strings.CutPrefix(ref, "refs/heads/")
	if !ok || !isBranch(branch) || strings.Contains(ref, "..") {
		return ""
	}
	if at := resolve(dir, ref); at != "" {
		return branch + "@" + at
	}
	return "" // nothing was committed yet
}

var (
	branchName = regexp.MustCompile(`^[\pL\pN._+@/-]+$`)
	commitID   = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
)

// isBranch tells whether a text may be the name of a branch. Its length is looked at apart: as a part of the expression it would take 8 MB, and each start of pyro a third of its time.
func isBranch(name string) bool {
	return utf8.RuneCountInString(name) <= 200 && branchName.MatchString(name)
}

// commit is a text where it is the name of a commit, else "".
func commit(text string) string {
	if commitID.MatchString(text) {
		return text
	}
	return ""
}

// gitDir is where a checkout keeps its HEAD: .git, or the folder that a worktree's .git names.
func gitDir(folder string) string {
	dir := filepath.Join(folder, ".git")
	if named, ok := strings.CutPrefix(strings.TrimSpace(read(dir, 8<<10)), "gitdir: "); ok {
		return within(folder, named)
	}
	return dir
}

// resolve gives the commit that a ref names, loose or packed. A worktree has its refs where its commondir says.
func resolve(dir, ref string) string {
	if common := strings.TrimSpace(read(filepath.Join(dir, "commondir"), 8<<10)); common != "" {
		dir = within(dir, common)
	}
	if at := commit(strings.TrimSpace(read(filepath.Join(dir, filepath.FromSlash(ref)), 1<<10))); at != "" {
		return at
	}
	for line := range strings.Lines(read(filepath.Join(dir, "packed-refs"), 4<<20)) {
		if at, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " "); ok && name == ref {
			return commit(at)
		}
	}
	return ""
}

// within is a path that is relative to a folder, or absolute.
func within(folder, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// read gives the beginning of a file, and "" of what is no file.
func read(path string, most int64) string {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for its writer
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	b, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return ""
	}
	return string(b)
}
