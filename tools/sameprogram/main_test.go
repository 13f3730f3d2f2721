package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const example = `//go:build linux

// Package p is an example.
package p

// int one(void) { return 1; }
import "C"

//export F
func F(x ...int) int {
	// why
	return len(x) // how many
}

type T = int

func ExampleF() {
	F()
	// Output: 1
}
`

// TestSame changes a file and checks which changes count as a change of the program.
func TestSame(t *testing.T) {
	for _, test := range []struct {
		old, new string
		same     bool
	}{
		{"// Package p is an example.\n", "", true},
		{"// why", "// why not\n\t/* really */", true},
		{" // how many", "", true},
		{"\n\ntype", "\n\n// T is new.\ntype", true},
		{"len(x)", "cap(x)", false},
		{"...int", "[]int", false},
		{"T = int", "T int", false},
		{"go:build linux", "go:build !linux", false},
		{"//export F\n", "", false},
		{"return 1;", "return 2;", false},
		{"Output: 1", "Output: 2", false},
		{"// why", "//nolint:all", false},
	} {
		changed := strings.Replace(example, test.old, test.new, 1)
		if changed == example {
			t.Fatalf("%q is not in the example", test.old)
		}
		got, err := same("p_test.go", []byte(example), []byte(changed))
		if err != nil || got != test.same {
			t.Errorf("%q -> %q: same = %v, %v, want %v", test.old, test.new, got, err, test.same)
		}
	}
	if _, err := same("p.go", []byte(example), []byte("package")); err == nil {
		t.Error("no error for a file that is not valid Go")
	}
}

// TestDiffering compares a checkout with its commit, from a folder below the root.
func TestDiffering(t *testing.T) {
	root := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) {
		t.Helper()
		if _, err := git(root, args...); err != nil {
			t.Fatal(err)
		}
	}
	run("init", "-q")
	if err := os.Mkdir(filepath.Join(root, "tools"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"code.go", "comment.go", "removed.go", "kept.go"} {
		write(name, "package p\n\n// old\nvar x = 1\n")
	}
	run("add", ".")
	run("-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "-m", "base")

	write("code.go", "package p\n\n// old\nvar x = 2\n")
	write("comment.go", "package p\n\n// new\nvar x = 1\n")
	write("added.go", "package p\n")
	run("rm", "-q", "removed.go")
	got, err := differing(filepath.Join(root, "tools"), "HEAD")
	slices.Sort(got)
	if want := []string{"added.go", "code.go", "removed.go"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("differing = %q, %v, want %q", got, err, want)
	}
	if _, err := differing(root, "--all"); err == nil {
		t.Error("no error for a base that is not a commit")
	}
}
