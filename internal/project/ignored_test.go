package project

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// write creates files, and creates directories for names that end with a slash.
func write(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(folder, name)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if err == nil && strings.HasSuffix(name, "/") {
			err = os.MkdirAll(at, 0o755)
		} else if err == nil {
			err = os.WriteFile(at, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// notIgnored returns the paths of a directory that are not ignored, without .git.
func notIgnored(t *testing.T, folder string) (all []string) {
	t.Helper()
	ignored := IgnoredIn(t.Context(), folder)
	err := filepath.WalkDir(folder, func(at string, d fs.DirEntry, err error) error {
		name, failed := filepath.Rel(folder, at)
		if err := errors.Join(err, failed); err != nil || name == "." {
			return err
		}
		switch {
		case d.Name() == ".git":
			if ignored.Has(t.Context(), name, d.IsDir()) {
				t.Errorf("%s is ignored", name)
			}
		case ignored.Has(t.Context(), name, d.IsDir()):
		case d.Name() == "dist": // all contents of dist are ignored
			return nil
		default:
			all = append(all, name)
			return nil
		}
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestIgnored checks the ignored files of a checkout with and without git.
func TestIgnored(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	write(t, home, map[string]string{".config/git/ignore": "*.swp\n"})
	folder := filepath.Join(t.TempDir(), "checkout")
	write(t, folder, map[string]string{
		".gitignore": ".env\n*.log\nbuild/\n/secrets\ntracked\n", "sub/.gitignore": "!keep.log\n", "a.go": "", ".env": "", "sub/.env": "", "x.log": "", "sub/keep.log": "",
		"build/out": "", "build/keep/tracked": "", "secrets/key": "", "tracked/a": "", "tracked/new": "", "tracked/deep/b": "", "empty/": "", "x.swp": "", "excluded": "",
		"inner/.gitignore": "*.tmp\n", "inner/x.tmp": "", "inner/x.log": "", "inner/a.go": "", "link/": "", "dist/": "", "dist/x.log": "",
	})
	git(t, folder, "init", "-q")
	write(t, folder, map[string]string{".git/info/exclude": "/excluded\n"})
	git(t, folder, "add", "-f", "a.go", "tracked/a", "tracked/deep/b", "build/keep/tracked")
	git(t, filepath.Join(folder, "inner"), "init", "-q")
	if err := os.Symlink("a.go", filepath.Join(folder, "linked.log")); err != nil {
		t.Fatal(err)
	}
	want := []string{
		".gitignore", "a.go", "build", "build/keep", "build/keep/tracked", "empty", "inner", "inner/.gitignore", "inner/a.go", "inner/x.log", "link", "sub", "sub/.gitignore",
		"sub/keep.log", "tracked", "tracked/a", "tracked/deep", "tracked/deep/b",
	}
	versions := []string{"2", "3", "4"}
	check := func(t *testing.T) {
		for _, version := range versions {
			if version == "3" {
				git(t, folder, "add", "-f", "-N", "tracked/new") // creates an entry with extended flags
				want = append(want, "tracked/new")
				slices.Sort(want)
			} else {
				git(t, folder, "update-index", "--index-version", version)
			}
			if got := notIgnored(t, folder); !slices.Equal(got, want) {
				t.Errorf("index version %s:\n%q, want\n%q", version, got, want)
			}
		}
		for name, want := range map[string][]string{
			"sub": {".gitignore", "keep.log"}, "secrets": {"key"}, "tracked/deep": {"b"}, "inner": {".gitignore", "a.go", "x.log"}, "dist": nil,
		} {
			if got := notIgnored(t, filepath.Join(folder, name)); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if got := notIgnored(t, filepath.Dir(folder)); len(got) != len(want)+1 {
			t.Errorf("the folder above: %q", got)
		}
	}
	t.Run("git", check)
	path := os.Getenv("PATH")
	t.Run("hostile configuration", func(t *testing.T) {
		ran := filepath.Join(t.TempDir(), "ran")
		hook := filepath.Join(t.TempDir(), "hook")
		if err := os.WriteFile(hook, []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		git(t, folder, "config", "core.fsmonitor", hook)
		versions = nil
		check(t)
		if _, err := os.Stat(ran); err == nil {
			t.Error("a program that the checkout names was run")
		}
		git(t, folder, "config", "--unset", "core.fsmonitor")
	})
	t.Run("no git", func(t *testing.T) {
		versions = []string{"2", "4"}
		for _, version := range versions {
			git(t, folder, "update-index", "--index-version", version)
			t.Setenv("PATH", t.TempDir())
			if got := notIgnored(t, folder); !slices.Equal(got, want) {
				t.Errorf("index version %s:\n%q, want\n%q", version, got, want)
			}
			t.Setenv("PATH", path)
		}
		versions = nil
		t.Setenv("PATH", t.TempDir())
		check(t)
	})
	if got := notIgnored(t, home); len(got) != 3 {
		t.Errorf("a folder in no checkout: %q", got)
	}
}

func TestIndex(t *testing.T) {
	for _, bad := range []string{"", "DIRC", "DIRC\x00\x00\x00\x02\xff\xff\xff\xff", "DIRC\x00\x00\x00\x05\x00\x00\x00\x01"} {
		if all := indexPaths([]byte(bad)); all != nil {
			t.Errorf("%q: %q", bad, all)
		}
	}
}

func FuzzIndex(f *testing.F) {
	entry := strings.Repeat("x", 60) + "\x00\x05"
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x01" + entry + "a/b.c\x00\x00\x00\x00\x00"))
	f.Add([]byte("DIRC\x00\x00\x00\x04\x00\x00\x00\x02" + entry + "\x00a/b\x00" + entry + "\x01c\x00"))
	f.Fuzz(func(t *testing.T, index []byte) {
		for _, name := range indexPaths(index) {
			if !filepath.IsLocal(name) && !strings.HasPrefix(name, "..") || len(name) > 4096 {
				t.Errorf("%q", name)
			}
		}
	})
}
