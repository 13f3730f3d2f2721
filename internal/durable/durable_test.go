package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, text := range []string{"first", "", "second"} {
		if err := Replace(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != text {
			t.Errorf("%q, %v", b, err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "folder", "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Replace(filepath.Join(dir, "folder"), nil); err == nil {
		t.Error("it took the place of a folder")
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 2 {
		t.Errorf("it left %v, %v", all, err)
	}
	for _, err := range []error{Replace(filepath.Join(dir, "none", "file"), nil), Sync(filepath.Join(dir, "none"))} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v", err)
		}
	}
}

func TestReplacement(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	no := errors.New("no")
	text := func() string {
		b, _ := os.ReadFile(path)
		return string(b)
	}
	for _, r := range []Replacement{{Mode: 0o444}, {Mode: 0o444, Unflushed: true}} {
		if err := r.Write(path, []byte("first")); err != nil || text() != "first" {
			t.Errorf("%+v: %q, %v", r, text(), err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o444 {
			t.Errorf("%+v: %v, %v", r, info, err)
		}
	}
	r := Replacement{Temp: "part-*", Check: func() error {
		if text() != "first" {
			t.Error("the file was replaced before the check")
		}
		if found, _ := filepath.Glob(filepath.Join(dir, "part-*")); len(found) != 1 {
			t.Errorf("temporary files: %v", found)
		}
		return no
	}}
	if err := r.Write(path, []byte("second")); err != no || text() != "first" {
		t.Errorf("%q, %v", text(), err)
	}
	if err := (Replacement{}).WriteFunc(path, func(f *os.File) error {
		f.WriteString("half")
		return no
	}); err != no || text() != "first" {
		t.Errorf("%q, %v", text(), err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("it left %v, %v", all, err)
	}
}
