package tree

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestCopyMatchesCp(t *testing.T) {
	src := fullTree(t)
	dst, oracle := filepath.Join(t.TempDir(), "copy"), filepath.Join(t.TempDir(), "oracle")
	stats, err := Copy(t.Context(), dst, src)
	check(t, err)
	run(t, "cp", "-a", "--reflink=auto", src, oracle)
	same(t, describe(t, dst), describe(t, src))
	same(t, describe(t, dst), describe(t, oracle))
	want := Stats{Files: 309, Folders: 8, Symlinks: 3, Links: 3, Special: 2, Bytes: fullTreeBytes}
	if isRoot {
		want.Special = 3
	}
	if stats != want {
		t.Errorf("got %+v, want %+v", stats, want)
	}
	var st unix.Stat_t
	check(t, unix.Stat(filepath.Join(dst, "sparse"), &st))
	if st.Blocks*512 > 1<<20 {
		t.Errorf("the sparse file uses %d bytes, want at most 1 MiB", st.Blocks*512)
	}
	for _, top := range []string{src, dst} {
		check(t, os.Chmod(filepath.Join(top, "readonly"), 0o755))
	}
	check(t, os.Chmod(filepath.Join(oracle, "readonly"), 0o755))
}

// TestCopyKeepsNamesInManyFolders checks that files with a name in each folder are copied once,
// although several workers find them at the same time.
func TestCopyKeepsNamesInManyFolders(t *testing.T) {
	const folders, files = 40, 25
	src, dst := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	for folder := range folders {
		check(t, os.Mkdir(filepath.Join(src, strconv.Itoa(folder)), 0o755))
		for file := range files {
			name := filepath.Join(src, strconv.Itoa(folder), strconv.Itoa(file))
			if folder == 0 {
				put(t, name, strings.Repeat("x", 1000*file), 0o644)
			} else {
				check(t, os.Link(filepath.Join(src, "0", strconv.Itoa(file)), name))
			}
		}
		check(t, os.Chtimes(filepath.Join(src, strconv.Itoa(folder)), time.Time{}, time.Unix(int64(folder), 7)))
	}
	stats, err := Copy(t.Context(), dst, src)
	check(t, err)
	if want := (Stats{Files: files, Folders: folders, Links: files * (folders - 1), Bytes: 1000 * files * (files - 1) / 2}); stats != want {
		t.Errorf("got %+v, want %+v", stats, want)
	}
	same(t, describe(t, dst), describe(t, src))
}

// TestWithoutPrivilege runs some tests of this package again as an ordinary user.
func TestWithoutPrivilege(t *testing.T) {
	if !isRoot {
		t.Skip("needs root")
	}
	program, err := os.Executable()
	check(t, err)
	folder, err := os.MkdirTemp("", "tree-test-")
	check(t, err)
	defer os.RemoveAll(folder)
	check(t, os.Chmod(folder, 0o777))
	b, err := os.ReadFile(program)
	check(t, err)
	check(t, testenv.WriteProgram(filepath.Join(folder, "test"), b))
	cmd := exec.Command(filepath.Join(folder, "test"), "-test.run", "^(TestCopyMatchesCp|TestCopyOfOtherUsersFiles|TestRemove.*|TestConcurrentRemove|TestWriteMatchesTar|TestUnreadable.*)$", "-test.v")
	cmd.Env = append(os.Environ(), "TMPDIR="+folder, "OTHERS="+others(t, folder))
	cmd.Dir = folder
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestCopyOfOtherUsersFiles") {
		t.Errorf("%v\n%s", err, out)
	}
}

// others creates a folder that root owns and an ordinary user can read.
func others(t *testing.T, folder string) string {
	t.Helper()
	top := filepath.Join(folder, "others")
	check(t, os.Mkdir(top, 0o755))
	put(t, filepath.Join(top, "suid"), "#!", 0o755|os.ModeSetuid|os.ModeSetgid)
	check(t, unix.Mknod(filepath.Join(top, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	check(t, os.Link(filepath.Join(top, "null"), filepath.Join(top, "null-too")))
	return top
}

func TestCopyOfOtherUsersFiles(t *testing.T) {
	src := os.Getenv("OTHERS")
	if src == "" {
		t.Skip("run by TestWithoutPrivilege")
	}
	dst := filepath.Join(t.TempDir(), "copy")
	stats, err := Copy(t.Context(), dst, src)
	check(t, err)
	if want := (Stats{Files: 1, Skipped: 2, Bytes: 2}); stats != want {
		t.Errorf("got %+v, want %+v", stats, want)
	}
	info, err := os.Stat(filepath.Join(dst, "suid"))
	check(t, err)
	if info.Mode() != 0o755 {
		t.Errorf("copy of a set-id program of another user: got mode %v, want 0755", info.Mode())
	}
}

func TestUnreadableFilesAreNamed(t *testing.T) {
	if isRoot {
		t.Skip("run by TestWithoutPrivilege")
	}
	src, dst := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	check(t, os.Mkdir(filepath.Join(src, "a"), 0o755))
	put(t, filepath.Join(src, "a", "secret"), "x", 0)
	_, err := Copy(t.Context(), dst, src)
	wantKind(t, err, fault.Permission, `a/secret"`)
	if exists(dst) {
		t.Error("the destination still exists")
	}
}

func TestCopyRefuses(t *testing.T) {
	src := t.TempDir()
	put(t, filepath.Join(src, "f"), "x", 0o644)
	link := filepath.Join(t.TempDir(), "link")
	check(t, os.Symlink(src, link))
	fresh := filepath.Join(t.TempDir(), "new")
	for name, c := range map[string]struct {
		dst, src string
		kind     fault.Kind
	}{
		"a destination that exists": {src, src, fault.Exists},
		"a source that is missing":  {fresh, filepath.Join(src, "none"), fault.NotFound},
		"a source that is a file":   {fresh, filepath.Join(src, "f"), fault.Internal},
		"a source that is a link":   {fresh, link, fault.Internal},
		"a copy into itself":        {filepath.Join(src, "copy"), src, fault.Invalid},
	} {
		if _, err := Copy(t.Context(), c.dst, c.src); fault.KindOf(err) != c.kind {
			t.Errorf("%s: got %v of kind %q, want kind %q", name, err, fault.KindOf(err), c.kind)
		}
	}
	if exists(fresh) || exists(filepath.Join(src, "copy")) {
		t.Error("the destination still exists")
	}
}

func TestCancelledCopyLeavesNothing(t *testing.T) {
	src, dst := fullTree(t), filepath.Join(t.TempDir(), "copy")
	for _, after := range []int{0, 1, 5, 50, 200} {
		ctx := &countdown{Context: t.Context()}
		ctx.left.Store(int32(after))
		if _, err := Copy(ctx, dst, src); !errors.Is(err, context.Canceled) {
			t.Errorf("after %d: %v", after, err)
		}
		if exists(dst) {
			t.Fatalf("after %d: the destination still exists", after)
		}
	}
}

// countdown is a context whose Err fails after a number of calls.
type countdown struct {
	context.Context
	left atomic.Int32
}

func (c *countdown) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

func TestDeepTrees(t *testing.T) {
	const levels = 3_000 // more than fit into a path
	src, dst := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	deep(t, src, levels)
	var old unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 128, Max: old.Max}))
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &old)
	stats, err := Copy(t.Context(), dst, src)
	check(t, err)
	if stats.Folders != levels || stats.Files != 1 {
		t.Errorf("got %+v, want %d folders and 1 file", stats, levels)
	}
	_, files, err := Size(t.Context(), dst)
	check(t, err)
	if files != 1 {
		t.Errorf("got %d files, want 1", files)
	}
	for _, top := range []string{src, dst} {
		check(t, Remove(t.Context(), top))
		if exists(top) {
			t.Errorf("%s still exists", top)
		}
	}
	check(t, os.Mkdir(src, 0o755)) // t.TempDir removes it again.
}

// TestCopyDetectsChanges changes a tree at every step of a copy. The copy must fail or contain a
// whole file. It must never contain a mixture of two files, or a file from outside the tree.
func TestCopyDetectsChanges(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	put(t, secret, "secret", 0o600)
	change := map[string]func(top string){
		"shorter":      func(top string) { os.Truncate(filepath.Join(top, "d/f"), 10) },
		"longer":       func(top string) { os.Truncate(filepath.Join(top, "d/f"), 10<<20) },
		"gone":         func(top string) { os.Remove(filepath.Join(top, "d/f")) },
		"a link":       func(top string) { os.Remove(filepath.Join(top, "d/f")); os.Symlink(secret, filepath.Join(top, "d/f")) },
		"a FIFO":       func(top string) { os.Remove(filepath.Join(top, "d/f")); unix.Mkfifo(filepath.Join(top, "d/f"), 0o600) },
		"folder moved": func(top string) { os.Rename(filepath.Join(top, "d"), filepath.Join(top, "e")) },
		"folder linked": func(top string) {
			os.RemoveAll(filepath.Join(top, "d"))
			os.Symlink(filepath.Dir(secret), filepath.Join(top, "d"))
		},
	}
	for name, change := range change {
		for step := range 12 {
			src, dst := t.TempDir(), filepath.Join(t.TempDir(), "copy")
			check(t, os.Mkdir(filepath.Join(src, "d"), 0o755))
			put(t, filepath.Join(src, "d/f"), strings.Repeat("f", 200<<10), 0o644)
			ctx := &interference{Context: t.Context(), do: func() { change(src) }}
			ctx.left.Store(int32(step))
			_, err := Copy(ctx, dst, src)
			if err != nil && (fault.KindOf(err) != fault.Precondition || exists(dst)) {
				t.Errorf("%s at step %d: error %v, destination exists: %v", name, step, err, exists(dst))
			}
			if exists(filepath.Join(dst, "d/secret")) {
				t.Errorf("%s at step %d: a link was followed", name, step)
			}
			if info, e := os.Lstat(filepath.Join(dst, "d/f")); e == nil && info.Mode().IsRegular() {
				if b, e := os.ReadFile(filepath.Join(dst, "d/f")); e != nil || bytes.Count(b, []byte("f"))+bytes.Count(b, []byte{0}) != len(b) {
					t.Errorf("%s at step %d: foreign content was copied, %v", name, step, e)
				}
			}
		}
	}
}

// interference is a context. Its method Err calls the function do once, after a number of calls.
type interference struct {
	context.Context
	left atomic.Int32
	do   func()
}

func (i *interference) Err() error {
	if i.left.Add(-1) == -1 {
		i.do()
	}
	return nil
}

func TestSizeCountsEachFileOnce(t *testing.T) {
	top := t.TempDir()
	put(t, filepath.Join(top, "a"), strings.Repeat("x", 1<<20), 0o644)
	check(t, os.Link(filepath.Join(top, "a"), filepath.Join(top, "b")))
	check(t, os.Symlink("/", filepath.Join(top, "c")))
	f, err := os.Create(filepath.Join(top, "hole"))
	check(t, err)
	check(t, f.Truncate(1<<30))
	check(t, f.Close())
	check(t, Flush(t.Context(), top))
	allocated, files, err := Size(t.Context(), top)
	check(t, err)
	if files != 3 || allocated < 1<<20 || allocated > 2<<20 {
		t.Errorf("got %d bytes and %d files, want 1 to 2 MiB and 3 files", allocated, files)
	}
	if _, _, err := Size(t.Context(), filepath.Join(top, "none")); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
	if err := Flush(t.Context(), filepath.Join(top, "none")); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
}

// reflinkFS mounts a file system whose files can share blocks.
func reflinkFS(t *testing.T) (top string) {
	t.Helper()
	testenv.NeedsRoot(t, "mount")
	image, top := filepath.Join(t.TempDir(), "image"), t.TempDir()
	check(t, errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 600<<20)))
	if out, err := exec.Command(testenv.NeedsTool(t, "mkfs.xfs"), "-q", "-m", "reflink=1", image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", image, top).CombinedOutput(); err != nil {
		testenv.Lacks(t, "XFS on loop devices: ", err, ": ", string(out))
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", top).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return top
}

func TestCopySharesBlocks(t *testing.T) {
	top := reflinkFS(t)
	src, err := os.MkdirTemp(top, "")
	check(t, err)
	content := io.LimitReader(zeroToNine{}, 256<<20)
	f, err := os.Create(filepath.Join(src, "large"))
	check(t, err)
	_, err = io.Copy(f, content)
	check(t, errors.Join(err, f.Sync(), f.Close()))
	var before, after unix.Statfs_t
	check(t, unix.Statfs(top, &before))
	began := time.Now()
	_, err = Copy(t.Context(), src+".copy", src)
	check(t, err)
	t.Log(time.Since(began))
	check(t, Flush(t.Context(), top))
	check(t, unix.Statfs(top, &after))
	if used := int64(before.Bfree-after.Bfree) * before.Bsize; used > 16<<20 {
		t.Errorf("a copy of 256 MiB used %d MiB, want at most 16", used>>20)
	}
	same(t, describe(t, src+".copy"), describe(t, src))
}

type zeroToNine struct{}

func (zeroToNine) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte('0' + i%10)
	}
	return len(p), nil
}
