// Package volumetest makes and describes what tests of volumes need: archives of changes, folders, trees.
package volumetest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Edit is an operation of a change in a test.
type Edit struct {
	Op      string // of PYRO.op; "link", "symlink", "folder" and "" are puts
	Path    string
	Text    string // content, or target
	Mode    int64
	Expect  string
	Keep    bool
	Typing  byte // another type than the operation has
	Records map[string]string
}

// When is the time of everything that is put.
var When = time.Unix(1700000000, 123456789)

// Archive makes the archive of a change.
func Archive(t testing.TB, entries ...Edit) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: e.Path, Mode: e.Mode, ModTime: When, Format: tar.FormatPAX, PAXRecords: map[string]string{}}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		switch e.Op {
		case "link":
			h.Typeflag, h.Linkname = tar.TypeLink, e.Text
		case "symlink":
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.Text
		case "folder":
			h.Typeflag, h.Name = tar.TypeDir, e.Path+"/"
			if e.Mode == 0 {
				h.Mode = 0o755
			}
		case "":
			h.Size = int64(len(e.Text))
		default:
			h.PAXRecords["PYRO.op"] = e.Op
		}
		if e.Typing != 0 {
			h.Typeflag = e.Typing
		}
		if e.Expect != "" {
			h.PAXRecords["PYRO.expect"] = e.Expect
		}
		if e.Keep {
			h.PAXRecords["PYRO.keep"] = "1"
		}
		for name, value := range e.Records {
			h.PAXRecords[name] = value
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatalf("%+v: %v", e, err)
		}
		if h.Size > 0 {
			io.WriteString(w, e.Text)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// InMemory gives a folder in which flushing costs nothing, if the host has one.
func InMemory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "pyro-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if os.RemoveAll(dir) != nil { // folders that are closed to their owner
			exec.Command("chmod", "-R", "u+rwx", dir).Run()
			os.RemoveAll(dir)
		}
	})
	return dir
}

// Put writes a file, and makes the folders above it.
func Put(t testing.TB, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// Tree describes all that is in a folder: what each thing is, its mode, owner, time, content or target, and which names are of one file.
func Tree(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	first := map[uint64]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		st := info.Sys().(*syscall.Stat_t)
		fmt.Fprintf(&b, "%q %v %d:%d", name, info.Mode(), st.Uid, st.Gid)
		switch {
		case info.Mode().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %d %d %.8x", info.Size(), info.ModTime().UnixNano(), sha256.Sum256(content))
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %q", target)
		}
		if !info.IsDir() && st.Nlink > 1 {
			if first[st.Ino] == "" {
				first[st.Ino] = name
			}
			fmt.Fprintf(&b, " as %q", first[st.Ino])
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Differ says where two descriptions of trees first differ.
func Differ(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("of %d and %d it is\n%.300s\nand not\n%.300s", len(a), len(b), a[i], b[i])
		}
	}
	return fmt.Sprintf("%d and not %d, after %.300s", len(a), len(b), a[min(len(a), len(b))-1])
}

// NothingPending checks that nothing of what was staged is left.
func NothingPending(t testing.TB, dir string) {
	t.Helper()
	if entries, err := os.ReadDir(filepath.Join(dir, "pending")); err != nil || len(entries) > 0 {
		t.Errorf("pending are %v, %v", entries, err)
	}
}
