package project

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/lazyregexp"
)

// Head returns the checked out revision of a directory as BRANCH@COMMIT, or COMMIT if HEAD is
// detached. It returns "" if the directory is not the root of a checkout, or if the format is
// unknown.
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
	return "" // no commits yet
}

var (
	branchName = lazyregexp.New(`^[\pL\pN._+@/-]+$`)
	commitID   = lazyregexp.New(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
)

// isBranch reports whether name can be a branch name. It checks the length in Go code, because a
// length limit in the regular expression would take 8 MB.
func isBranch(name string) bool {
	return utf8.RuneCountInString(name) <= 200 && branchName().MatchString(name)
}

// commit returns text if it is a commit ID, and "" otherwise.
func commit(text string) string {
	if commitID().MatchString(text) {
		return text
	}
	return ""
}

// gitDir returns the directory that contains HEAD: .git or, for a worktree, the directory that the
// file .git names.
func gitDir(folder string) string {
	dir := filepath.Join(folder, ".git")
	if named, ok := strings.CutPrefix(strings.TrimSpace(read(dir, 8<<10)), "gitdir: "); ok {
		return within(folder, named)
	}
	return dir
}

// resolve returns the commit of a loose or packed ref. The refs of a worktree are in its common
// directory.
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

// within joins folder and path, unless path is absolute.
func within(folder, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// read returns the start of a regular file, at most the given number of bytes. It returns "" if
// there is an error.
func read(path string, most int64) string {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // do not block on a FIFO
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
