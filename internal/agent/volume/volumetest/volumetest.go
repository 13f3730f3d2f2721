// Package volumetest has helpers for tests of volumes. They create directories and archives with
// changes, and describe trees.
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

// Edit is an operation of a change.
type Edit struct {
	Op      string // value of PYRO.op; "link", "symlink", "folder" and "" are kinds of put
	Path    string
	Text    string // content or link target
	Mode    int64
	Expect  string
	Keep    bool
	Typing  byte // entry type of the archive; 0 for the usual one
	Records map[string]string
}

// When is the modification time of all archive entries.
var When = time.Unix(1700000000, 123456789)

// Archive returns the archive of a change that consists of these operations.
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

// InMemory returns a directory on tmpfs if there is one, because flushes are fast there. Otherwise
// it returns a directory on disk.
func InMemory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "pyro-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if os.RemoveAll(dir) != nil { // some directories have no permissions for their owner
			exec.Command("chmod", "-R", "u+rwx", dir).Run()
			os.RemoveAll(dir)
		}
	})
	return dir
}

// Put writes a file and creates its parent directories.
func Put(t testing.TB, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// Tree describes everything in a directory: types, modes, owners, modification times, content, link
// targets and hard links.
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

// Differ describes the first difference between two tree descriptions.
func Differ(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("of %d and %d it is\n%.300s\nand not\n%.300s", len(a), len(b), a[i], b[i])
		}
	}
	return fmt.Sprintf("%d and not %d, after %.300s", len(a), len(b), a[min(len(a), len(b))-1])
}

// NothingPending checks that no staged files are left.
func NothingPending(t testing.TB, dir string) {
	t.Helper()
	if entries, err := os.ReadDir(filepath.Join(dir, "pending")); err != nil || len(entries) > 0 {
		t.Errorf("pending are %v, %v", entries, err)
	}
}
