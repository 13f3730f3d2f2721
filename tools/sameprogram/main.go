// Sameprogram checks that a checkout differs from a commit only in the comments of its Go files:
//
//	cd tools && go run ./sameprogram BASE
//
// It prints each Go file whose program differs, and each that was added or removed. The exit code
// is 0 if there are none, 1 if there are some, and 2 after an error. It compares no other files.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sameprogram BASE")
		os.Exit(2)
	}
	names, err := differing(".", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "sameprogram:", err)
		os.Exit(2)
	}
	for _, name := range names {
		fmt.Println(name)
	}
	if len(names) > 0 {
		os.Exit(1)
	}
}

// differing returns the Go files whose program differs between the checkout that contains dir and
// the commit base. The names are relative to the root of the checkout.
func differing(dir, base string) ([]string, error) {
	top, err := git(dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	root := strings.TrimSuffix(string(top), "\n")
	// "^{commit}" rejects options and names of files.
	commit, err := git(root, "rev-parse", "--verify", "--end-of-options", base+"^{commit}")
	if err != nil {
		return nil, err
	}
	base = strings.TrimSpace(string(commit))
	changed, err := git(root, "diff", "-z", "--name-only", "--no-renames", base, "--", "*.go")
	if err != nil {
		return nil, err
	}
	untracked, err := git(root, "ls-files", "-z", "--others", "--exclude-standard", "--", "*.go")
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range strings.SplitSeq(string(untracked), "\x00") {
		if name != "" {
			names = append(names, name)
		}
	}
	for name := range strings.SplitSeq(string(changed), "\x00") {
		if name == "" {
			continue
		}
		equal, err := sameAsIn(root, base, name)
		if err != nil {
			return nil, err
		}
		if !equal {
			names = append(names, name)
		}
	}
	return names, nil
}

// sameAsIn reports whether a file has the same program as in the commit base. If the file is
// missing on either side, it returns false.
func sameAsIn(root, base, name string) (bool, error) {
	now, err := os.ReadFile(filepath.Join(root, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	listed, err := git(root, "ls-tree", "--full-tree", base, "--", name)
	if err != nil || len(listed) == 0 {
		return false, err
	}
	before, err := git(root, "cat-file", "blob", base+":"+name)
	if err != nil {
		return false, err
	}
	return same(name, before, now)
}

// git returns the output of a git command in dir.
func git(dir string, args ...string) ([]byte, error) {
	command := exec.Command("git", args...)
	command.Dir = dir
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}
