package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
	"github.com/pyro-mcp/pyro/internal/xattr"
)

// needAttributes skips the test if the file system has no extended attributes.
func needAttributes(t *testing.T, path string) {
	t.Helper()
	if err := unix.Setxattr(path, "user.test", []byte("1"), 0); err != nil {
		testenv.Lacks(t, "extended attributes of users on the file system")
	}
}

// TestCopyOfPausedFolder checks which files of a paused machine are marked and linked.
func TestCopyOfPausedFolder(t *testing.T) {
	top := t.TempDir()
	src, dst := filepath.Join(top, "src"), filepath.Join(top, "dst")
	at := func(name string) string { return filepath.Join(src, name) }
	check(t, os.Mkdir(src, 0o755))
	for _, name := range []string{"closed", "read", "written", "large", "two", "one", "old"} {
		put(t, at(name), name, 0o640)
	}
	needAttributes(t, src)
	check(t, os.Truncate(at("large"), maxPausedShare+1))
	check(t, os.Link(at("two"), at("names")))
	check(t, unix.Setxattr(at("old"), xattr.Shared, nil, 0))
	check(t, unix.Setxattr(at("one"), xattr.SeveralNames, nil, 0)) // it had two names before
	for name, flags := range map[string]int{"read": os.O_RDONLY, "written": os.O_WRONLY} {
		f, err := os.OpenFile(at(name), flags, 0)
		check(t, err)
		defer f.Close()
	}
	var st unix.Stat_t
	check(t, unix.Lstat(at("closed"), &st))
	want := withoutLinks(describe(t, src))
	_, err := CopySharing(t.Context(), dst, src, Sharing{Marked: true, Mark: true, Paused: true})
	check(t, err)
	for name, shared := range map[string]bool{"closed": true, "read": true, "written": false, "large": false, "two": false, "names": false, "one": false, "old": true} {
		if got := inodeOf(t, at(name)) == inodeOf(t, filepath.Join(dst, name)); got != shared {
			t.Errorf("%s is shared: %t", name, got)
		}
		if _, err := unix.Lgetxattr(at(name), xattr.Shared, nil); (err == nil) != shared {
			t.Errorf("%s is marked: %v", name, err)
		}
	}
	value := make([]byte, 20)
	n, err := unix.Lgetxattr(at("closed"), xattr.Shared, value)
	check(t, err)
	if !slices.Equal(value[:n], xattr.SharedSince(st.Ctim.Unix())) {
		t.Errorf("the mark is %x", value[:n])
	}
	marks := func(lines []string) (all []string) {
		for _, line := range withoutLinks(lines) {
			all = append(all, regexp.MustCompile(` user\.pyro\.[a-z-]+="(\\.|[^"\\])*"`).ReplaceAllString(line, ""))
		}
		return all
	}
	same(t, marks(describe(t, dst)), marks(want))
}

// TestWritersOfPausedFolder copies a folder whose machine ignores the pause. Its writers make files
// anew, exchange them, and replace marked files by copies, as the gofer does. No copy must ever
// change.
func TestWritersOfPausedFolder(t *testing.T) {
	const files = 20
	top := t.TempDir()
	src := filepath.Join(top, "src")
	check(t, os.Mkdir(src, 0o755))
	for i := range files {
		put(t, filepath.Join(src, fmt.Sprint(i)), "begun", 0o644)
	}
	needAttributes(t, src)
	done, writers := make(chan struct{}), sync.WaitGroup{}
	for w := range 2 {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				name := filepath.Join(src, fmt.Sprint(random.IntN(files/2)*2+w)) // each writer has its own files
				var err error
				switch text := fmt.Sprintf("%d %d", w, n); random.IntN(3) {
				case 0:
					err = remake(name, text)
				case 1:
					other := filepath.Join(src, fmt.Sprint(random.IntN(files/2)*2+w))
					err = unix.Renameat2(unix.AT_FDCWD, name, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
				default:
					err = writeUnlessMarked(name, text)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	contents := map[string]string{}
	for round := 0; round < testenv.Rounds(100, 2000) && !t.Failed(); round++ {
		dst := filepath.Join(top, fmt.Sprint("copy", round))
		_, err := CopySharing(t.Context(), dst, src, Sharing{Marked: true, Mark: true, Paused: true})
		if fault.KindOf(err) == fault.Precondition { // a writer has replaced a file
			continue
		}
		check(t, err)
		for i := range files {
			name := filepath.Join(dst, fmt.Sprint(i))
			b, err := os.ReadFile(name)
			if errors.Is(err, fs.ErrNotExist) { // a writer was just making it anew
				continue
			}
			check(t, err)
			contents[name] = string(b)
		}
	}
	close(done)
	writers.Wait()
	t.Logf("%d files", len(contents))
	if len(contents) == 0 {
		t.Error("no copy was made")
	}
	for name, want := range contents {
		if b, err := os.ReadFile(name); err != nil || string(b) != want {
			t.Errorf("%s changed from %q to %q, %v", name, want, b, err)
		}
	}
}

// remake replaces a file by a new one, in the same steps as the gofer. If the new file is marked,
// the gofer would exit.
func remake(name, text string) error {
	if err := os.Remove(name); err != nil {
		return err
	}
	created, err := os.OpenFile(name, os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer created.Close()
	f, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", created.Fd()), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if IsMarked(int(f.Fd())) {
		return f.Close()
	}
	return writeOften(f, text)
}

// writeUnlessMarked changes a file. If it is marked, it first replaces it by a copy.
func writeUnlessMarked(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if IsMarked(int(f.Fd())) {
		f.Close()
		if err := os.WriteFile(name+".new", []byte(text), 0o644); err != nil {
			return err
		}
		return os.Rename(name+".new", name)
	}
	return writeOften(f, text)
}

// writeOften changes a file several times, and closes it.
func writeOften(f *os.File, text string) (err error) {
	for range 20 {
		text += "."
		if _, err = f.WriteAt([]byte(text), 0); err != nil {
			break
		}
	}
	return errors.Join(err, f.Close())
}
