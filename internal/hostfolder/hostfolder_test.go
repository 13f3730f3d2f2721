package hostfolder

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// files is the number of files that each change of the tests replaces.
const files = 40

// version returns the content of all files in a version of the folder.
func version(n int) string { return strings.Repeat(fmt.Sprintf("version %d\n", n), 2000) }

// operations returns a change that writes a version of all files, removes the file of the previous
// version, and adds a file in new folders.
func operations(t testing.TB, n int) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(h *tar.Header, content string) {
		h.Typeflag, h.Mode, h.Size, h.Format = tar.TypeReg, 0o644, int64(len(content)), tar.FormatPAX
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	for i := range files {
		add(&tar.Header{Name: fmt.Sprintf("file%d", i)}, version(n))
	}
	if n > 0 {
		add(&tar.Header{Name: fmt.Sprintf("only%d/in/this", n-1), PAXRecords: map[string]string{volume.RecordOperation: "delete"}}, "")
	}
	add(&tar.Header{Name: fmt.Sprintf("only%d/in/this", n)}, version(n))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// check checks that the folder has exactly one version, and the user's own file. It returns the
// version.
func check(t *testing.T, folder string) int {
	t.Helper()
	first, err := os.ReadFile(filepath.Join(folder, "file0"))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.Fields(string(first))[1])
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		if text, err := os.ReadFile(filepath.Join(folder, fmt.Sprintf("file%d", i))); err != nil || string(text) != version(n) {
			t.Fatalf("file%d is not version %d: %.40q, %v", i, n, text, err)
		}
	}
	for m := range n + 2 {
		_, err := os.Stat(filepath.Join(folder, fmt.Sprintf("only%d/in/this", m)))
		if (err == nil) != (m == n) {
			t.Fatalf("version %d, and the file of version %d: %v", n, m, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(folder, "users/own")); string(text) != "precious" {
		t.Fatalf("the user's own file: %q, %v", text, err)
	}
	return n
}

// newFolder returns a folder with version 0.
func newFolder(t *testing.T, j Journal) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "folder")
	if err := os.MkdirAll(filepath.Join(folder, "users"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "users/own"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Change(t.Context(), folder, operations(t, 0)); err != nil {
		t.Fatal(err)
	}
	return folder
}

// clean fails the test if a change has left something behind.
func clean(t *testing.T, j Journal, folder string) {
	t.Helper()
	for _, pattern := range []string{filepath.Join(string(j), "*"), filepath.Join(folder, StagingPrefix+"*")} {
		if left, err := filepath.Glob(pattern); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}

func TestChange(t *testing.T) {
	t.Parallel()
	j := Journal(filepath.Join(t.TempDir(), "journal"))
	folder := newFolder(t, j)
	counts, err := j.Change(t.Context(), folder, operations(t, 1))
	if err != nil || counts.Replaced != files || counts.Created != 1 || counts.Deleted != 1 {
		t.Errorf("%+v, %v", counts, err)
	}
	if n := check(t, folder); n != 1 {
		t.Errorf("version %d", n)
	}
	if _, err := j.Change(t.Context(), folder, io.LimitReader(operations(t, 2), 50_000)); err == nil {
		t.Error("half an archive was accepted")
	}
	if _, err := j.Change(t.Context(), folder+"/none", operations(t, 2)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing folder: %v", err)
	}
	if _, err := j.Change(t.Context(), folder+"/file1", operations(t, 2)); err == nil {
		t.Error("a file was accepted as a folder")
	}
	if n := check(t, folder); n != 1 {
		t.Errorf("version %d", n)
	}
	clean(t, j, folder)
}

// TestForeignStaging checks that only recorded changes are recovered. Everybody can create a folder
// that looks like one.
func TestForeignStaging(t *testing.T) {
	t.Parallel()
	j := Journal(t.TempDir())
	folder := newFolder(t, j)
	foreign := filepath.Join(folder, StagingPrefix+"abc/pending/0123456789abcdef")
	if err := os.MkdirAll(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(foreign, "decided"), []byte("pyro change 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := j.Recover(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error(err)
	}
	check(t, folder)
}

// TestMissingFolder checks that an interrupted change is recovered even if the folder was missing
// in the meantime, for example because its disk was not mounted.
func TestMissingFolder(t *testing.T) {
	t.Parallel()
	j := Journal(t.TempDir())
	folder := newFolder(t, j)
	r, err := j.begin(folder)
	if err != nil {
		t.Fatal(err)
	}
	r.lock.Release()
	disk := filepath.Dir(folder)
	if err := os.Rename(disk, disk+"-elsewhere"); err != nil {
		t.Fatal(err)
	}
	if err := j.Recover(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(disk, nil, 0o600); err != nil { // a file is in the way
		t.Fatal(err)
	}
	if err := j.Recover(); err != nil {
		t.Error(err)
	}
	if err := errors.Join(os.Remove(disk), os.Rename(disk+"-elsewhere", disk)); err != nil {
		t.Fatal(err)
	}
	if err := j.Recover(); err != nil {
		t.Error(err)
	}
	clean(t, j, folder)
	check(t, folder)

	// The staging folder was removed after the change was complete.
	if r, err = j.begin(folder); err != nil {
		t.Fatal(err)
	}
	r.lock.Release()
	if err := errors.Join(os.RemoveAll(r.staging()), j.Recover()); err != nil {
		t.Error(err)
	}
	clean(t, j, folder)
}

const childFolder, childJournal, childVersion = "PYRO_TEST_FOLDER", "PYRO_TEST_JOURNAL", "PYRO_TEST_VERSION"

// TestChild makes one change. It runs only in the processes that TestKilled starts.
func TestChild(t *testing.T) {
	folder := os.Getenv(childFolder)
	if folder == "" {
		return
	}
	n, err := strconv.Atoi(os.Getenv(childVersion))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Journal(os.Getenv(childJournal)).Change(context.Background(), folder, operations(t, n)); err != nil {
		t.Fatal(err)
	}
}

// TestKilled kills processes in the middle of changes. Until recovery, no file is missing or
// half-written. After recovery, the change is complete or undone.
func TestKilled(t *testing.T) {
	t.Parallel()
	j := Journal(t.TempDir())
	folder := newFolder(t, j)
	r := testenv.Rand(t, 34)
	interrupted, completed := 0, 0
	for range testenv.Rounds(15, 100) {
		next := check(t, folder) + 1
		child := exec.Command(os.Args[0], "-test.run=^TestChild$")
		child.Env = append(os.Environ(), childFolder+"="+folder, childJournal+"="+string(j), childVersion+"="+strconv.Itoa(next))
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- child.Wait() }()
		// Kill it at a random moment after it has begun.
		for alive := true; alive; {
			if staged, _ := filepath.Glob(filepath.Join(folder, StagingPrefix+"*")); len(staged) > 0 {
				break
			}
			select {
			case err := <-ended:
				ended <- err
				alive = false
			case <-time.After(time.Millisecond):
			}
		}
		time.Sleep(time.Duration(r.Int64N(int64(30 * time.Millisecond))))
		child.Process.Kill()
		<-ended
		for i := range files {
			if text, err := os.ReadFile(filepath.Join(folder, fmt.Sprintf("file%d", i))); err != nil || string(text) != version(next) && string(text) != version(next-1) {
				t.Fatalf("after the kill, file%d is %.40q, %v", i, text, err)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(string(j), "*")); len(left) > 0 {
			interrupted++
		}
		if err := j.Recover(); err != nil {
			t.Fatal(err)
		}
		clean(t, j, folder)
		if check(t, folder) == next {
			completed++
		}
	}
	t.Logf("%d changes were interrupted, %d completed", interrupted, completed)
}

// TestFileIsNeverMissing reads a file while changes replace it.
func TestFileIsNeverMissing(t *testing.T) {
	t.Parallel()
	j := Journal(t.TempDir())
	folder := newFolder(t, j)
	done := make(chan bool)
	read := make(chan error, 1)
	go func() {
		for {
			select {
			case <-done:
				read <- nil
				return
			default:
			}
			text, err := os.ReadFile(filepath.Join(folder, "file7"))
			if err == nil && len(text) < 2000*len("version 1\n") {
				err = fmt.Errorf("it has %d bytes", len(text))
			}
			if err != nil {
				read <- err
				return
			}
		}
	}()
	for n := 1; n <= 20; n++ {
		if _, err := j.Change(t.Context(), folder, operations(t, n)); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	if err := <-read; err != nil {
		t.Error(err)
	}
}
