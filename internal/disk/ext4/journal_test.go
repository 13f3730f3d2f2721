package ext4

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// recovered compares two copies of a file system that was not unmounted: image, and a copy that
// e2fsck recovered. It compares all files, and all blocks except those that record the recovery
// itself. It returns the blocks in the journal.
func recovered(t *testing.T, image string) replayed {
	t.Helper()
	after := image + ".recovered"
	duplicate(t, after, image)
	if out, err := exec.Command(testenv.NeedsTool(t, "e2fsck"), "-y", "-E", "journal_only", after).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	dirty, clean := openImage(t, image), openImage(t, after)
	if !dirty.dirty || clean.dirty {
		t.Fatal("there is no journal to replay")
	}
	journal, err := clean.anyInode(clean.journal)
	if err != nil {
		t.Fatal(err)
	}
	own := map[int64]bool{superblockAt / clean.blockSize: true}
	for block := range journal.size / clean.blockSize {
		r, err := clean.find(journal, block)
		if err != nil {
			t.Fatal(err)
		}
		own[r.start] = true
	}
	a, b := make([]byte, 64*clean.blockSize), make([]byte, 64*clean.blockSize)
	differ := 0
	for first := int64(0); first < clean.blocks; first += 64 {
		n := min(64, clean.blocks-first) * clean.blockSize
		if err := errors.Join(dirty.read(a[:n], first*clean.blockSize), clean.read(b[:n], first*clean.blockSize)); err != nil {
			t.Fatal(err)
		}
		for at := int64(0); at < n; at += clean.blockSize {
			block := first + at/clean.blockSize
			if !bytes.Equal(a[at:at+clean.blockSize], b[at:at+clean.blockSize]) && !own[block] {
				if differ++; differ < 5 {
					t.Errorf("block %d is not as e2fsck has it; in the journal: %v", block, dirty.replayed[block])
				}
			}
		}
	}
	sameFiles(t, dirty, clean)
	return dirty.replayed
}

func sameFiles(t *testing.T, got, want *FS) {
	t.Helper()
	a, b := listing(t, got), listing(t, want)
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			t.Errorf("%d files, not %d; the first that differs:\n%s\n%s", len(a), len(b), at(a, i), at(b, i))
			return
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "none"
}

// listing returns a description of every file.
func listing(t *testing.T, fsys *FS) (lines []string) {
	t.Helper()
	err := fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s %+v", name, *info.Sys().(*syscall.Stat_t))
		attributes, err := fsys.Xattrs(name)
		if err != nil {
			return err
		}
		line += fmt.Sprint(attributes)
		switch {
		case e.Type() == fs.ModeSymlink:
			target, err := fsys.ReadLink(name)
			if err != nil {
				return err
			}
			line += target
		case e.Type().IsRegular():
			file, err := fsys.Open(name)
			if err != nil {
				return err
			}
			line += digest(t, file)
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// duplicate copies an image that might be in use.
func duplicate(t *testing.T, to, from string) {
	t.Helper()
	if out, err := exec.Command("cp", "--sparse=always", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// mounted mounts an image and returns the mount point. It needs root.
func mounted(t *testing.T, image, options string) string {
	t.Helper()
	testenv.NeedsRoot(t, "mount")
	folder := t.TempDir()
	if out, err := exec.Command("mount", "-o", "loop,"+options, image, folder).CombinedOutput(); err != nil {
		testenv.Lacks(t, "no loop devices: ", err, ": ", string(out))
	}
	t.Cleanup(func() { unix.Unmount(folder, 0) })
	return folder
}

// churn creates changes that fill a journal. It creates, grows, moves and deletes files and
// directories, and flushes many of them. This reuses directory blocks for file content.
func churn(t *testing.T, folder string, random *rand.Rand, rounds int) {
	t.Helper()
	var names []string
	count := 0
	for range rounds {
		switch which := random.IntN(10); {
		case which < 4 || len(names) < 5:
			name := filepath.Join(folder, fmt.Sprintf("f%d-%s", count, strings.Repeat("n", random.IntN(100))))
			content := bytes.Repeat([]byte{byte(count)}, random.IntN(30_000))
			for at := 0; at+4 <= len(content); at += 4096 * (1 + random.IntN(2)) { // The journal must escape a block that begins like this.
				binary.BigEndian.PutUint32(content[at:], journalMagic)
			}
			file, err := os.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			_, err = file.Write(content)
			if random.IntN(3) == 0 {
				err = errors.Join(err, file.Sync())
			}
			if err = errors.Join(err, file.Close()); err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
			count++
		case which < 6:
			dir := filepath.Join(folder, fmt.Sprintf("d%d", count))
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			for i := range random.IntN(60) {
				if err := os.Symlink(strings.Repeat("t", 1+random.IntN(200)), filepath.Join(dir, fmt.Sprintf("l%d", i))); err != nil {
					t.Fatal(err)
				}
			}
			names = append(names, dir)
			count++
		case which < 7:
			i := random.IntN(len(names))
			if err := unix.Setxattr(names[i], "user.churn", bytes.Repeat([]byte("v"), random.IntN(300)), 0); err != nil {
				t.Fatal(err)
			}
		case which < 8:
			i := random.IntN(len(names))
			to := filepath.Join(folder, fmt.Sprintf("moved-%d", count))
			if err := os.Rename(names[i], to); err != nil {
				t.Fatal(err)
			}
			names[i] = to
			count++
		default:
			i := random.IntN(len(names))
			if err := os.RemoveAll(names[i]); err != nil {
				t.Fatal(err)
			}
			names = slices.Delete(names, i, i+1)
		}
	}
}

// TestRecoversJournalOfKernel copies the image of a mounted file system. The copy is in the same
// state as after a crash of its machine.
func TestRecoversJournalOfKernel(t *testing.T) {
	for name, c := range map[string]struct{ mkfs, mount string }{
		"default":                 {"", "rw"},
		"no checksums":            {"-O ^metadata_csum,^64bit", "rw"},
		"64 bits, no checksums":   {"-O ^metadata_csum,64bit", "rw"},
		"checksums, 32 bits":      {"-O metadata_csum,^64bit", "rw"},
		"a journal that is short": {"-b 1024 -J size=1", "rw"},
		"short, no checksums":     {"-b 1024 -J size=1 -O ^metadata_csum,^64bit", "rw"},
		"content too":             {"-J size=4", "data=journal"},
		"content, no checksums":   {"-O ^metadata_csum,^64bit -J size=4", "data=journal"},
	} {
		t.Run(name, func(t *testing.T) {
			image := makeImage(t, t.TempDir(), "48M", strings.Fields(c.mkfs)...)
			folder := mounted(t, image, c.mount)
			random := rand.New(rand.NewPCG(uint64(len(name)), 1))
			kept := 0
			rounds := 3
			if testing.Short() {
				rounds = 2
			}
			for round := range rounds {
				churn(t, folder, random, 150)
				last, err := os.Create(filepath.Join(folder, fmt.Sprint("flushed-", round)))
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(unix.Syncfs(int(last.Fd())), last.Close()); err != nil {
					t.Fatal(err)
				}
				copied := filepath.Join(t.TempDir(), "copy")
				duplicate(t, copied, image)
				found := recovered(t, copied)
				kept = max(kept, len(found))
				fsys := openImage(t, copied)
				if _, err := fsys.Lstat(fmt.Sprint("flushed-", round)); err != nil {
					t.Error(err)
				}
				if err := os.RemoveAll(filepath.Join(folder, "flushed-0")); err != nil {
					t.Fatal(err)
				}
				_ = filepath.WalkDir(folder, func(path string, _ fs.DirEntry, _ error) error {
					if path != folder && filepath.Base(path) != "lost+found" && !strings.Contains(path, "flushed") {
						os.RemoveAll(path)
					}
					return nil
				})
			}
			if kept < 10 {
				t.Errorf("only %d blocks were in a journal", kept)
			}
		})
	}
}
