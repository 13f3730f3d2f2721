package ext4

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// must runs a tool from e2fsprogs. It fixes the clock, so that equal trees give equal images.
func must(t testing.TB, tool string, args ...string) string {
	t.Helper()
	cmd := exec.Command(testenv.NeedsTool(t, tool), args...)
	cmd.Env = append(os.Environ(), "E2FSPROGS_FAKE_TIME=1700000000", "LC_ALL=C")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if _, failure, _ := strings.Cut(said.String(), "\n"); err != nil || tool == "debugfs" && failure != "" { // the first line is the version
		t.Fatalf("%s %q: %v\n%s%s", tool, args, err, out, &said)
	}
	return string(out)
}

const fixed = "7079726f-0000-4000-8000-000000000000"

// makeImage creates an image from a tree. The size is in the syntax of mkfs.ext4.
func makeImage(t testing.TB, tree, size string, options ...string) string {
	t.Helper()
	image := filepath.Join(t.TempDir(), "image")
	args := append([]string{"-q", "-F", "-U", fixed, "-E", "hash_seed=" + fixed, "-d", tree}, options...)
	must(t, "mkfs.ext4", append(args, image, size)...)
	return image
}

// change runs debugfs commands that modify an image.
func change(t testing.TB, image string, commands ...string) {
	t.Helper()
	for _, command := range commands {
		must(t, "debugfs", "-w", "-R", command, image)
	}
}

func openImage(t testing.TB, path string) *FS {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	fsys, err := Open(file, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	return fsys
}

// fullTree creates a tree with every kind of file that an ordinary user can create.
func fullTree(t testing.TB) string {
	t.Helper()
	top := t.TempDir()
	random := rand.NewChaCha8([32]byte{1})
	content := func(n int) []byte {
		b := make([]byte, n)
		random.Read(b)
		return b
	}
	in := func(name string) string { return filepath.Join(top, name) }
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	file := func(name string, mode os.FileMode, b []byte) {
		t.Helper()
		check(os.WriteFile(in(name), b, 0o600))
		check(os.Chmod(in(name), mode))
	}
	for _, dir := range []string{"many", "deep/er/and/deeper", "deep/empty", "sticky"} {
		check(os.MkdirAll(in(dir), 0o755))
	}
	check(os.Chmod(in("sticky"), os.ModeSticky|0o777))
	check(os.Chmod(in("deep/er"), os.ModeSetgid|0o750))
	for i := range 2000 { // 80 KiB of names; mkfs.ext4 needs quadratic time
		file(fmt.Sprintf("many/file-with-a-longer-name-%04d", i), 0o644, fmt.Appendf(nil, "%d", i))
	}
	file("empty", 0o600, nil)
	file("random", 0o644, content(20<<20+123))
	file("suid", os.ModeSetuid|0o711, content(5000))
	file("deep/er/and/deeper/file", 0o444, content(3))
	file(strings.Repeat("n", 255), 0o644, content(1024))
	file("smörgåsbord-日本", 0o644, content(4096))
	file("not\xffutf8\xfe", 0o644, content(10))
	sparse(t, in("sparse"), 3<<20+5, []int64{1 << 20, 1<<20 + 4096, 2<<20 + 8192}, content(4096))
	var comb []int64
	for i := range int64(1500) {
		comb = append(comb, i*8192)
	}
	sparse(t, in("comb"), 1500*8192, comb, content(4096))
	sparse(t, in("hole"), 1<<30, nil, nil)
	check(os.Symlink("empty", in("short")))
	for _, n := range []int{59, 60, 61, 900} {
		check(os.Symlink(strings.Repeat("t", n), in(fmt.Sprintf("link%d", n))))
	}
	check(os.Symlink("deep/er", in("over")))
	check(os.Symlink("\xff\xfe", in("oddlink")))
	check(os.Link(in("suid"), in("deep/suid-too")))
	check(os.Link(in("suid"), in("deep/er/suid-three")))
	check(syscall.Mkfifo(in("fifo"), 0o620))
	check(os.Chmod(in("fifo"), 0o620))
	check(os.Chtimes(in("empty"), time.Time{}, time.Unix(123456789, 0)))
	check(os.Chtimes(in("random"), time.Time{}, time.Unix(-1000, 0)))
	check(os.Chtimes(in("deep/empty"), time.Time{}, time.Unix(1<<31-1, 0)))
	return top
}

// sparse creates a file that contains a copy of block at each of the given offsets. The rest of the
// file is a hole.
func sparse(t testing.TB, path string, size int64, at []int64, block []byte) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	err = file.Truncate(size)
	for _, offset := range at {
		_, e := file.WriteAt(block, offset)
		err = errors.Join(err, e)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}
