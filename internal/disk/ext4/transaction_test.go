package ext4

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// script runs debugfs commands on an image.
func script(t testing.TB, image string, commands ...string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "commands")
	if err := os.WriteFile(path, []byte(strings.Join(commands, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, "debugfs", "-w", "-f", path, image)
}

// blocksFile creates a file with the content for a transaction. Each block consists of a different
// byte. The third block begins like a journal block.
func blocksFile(t testing.TB, blockSize, count int, first byte) string {
	t.Helper()
	var b []byte
	for i := range count {
		b = append(b, bytes.Repeat([]byte{first + byte(i)}, blockSize)...)
	}
	if count > 2 {
		binary.BigEndian.PutUint32(b[2*blockSize:], journalMagic)
	}
	path := filepath.Join(t.TempDir(), "blocks")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRecoversTransactions reads transactions that debugfs wrote, in each format. Some transactions
// replace earlier ones, some are revoked, and one has no commit block.
func TestRecoversTransactions(t *testing.T) {
	for _, open := range []string{"jo", "jo -c -v 2", "jo -c -v 3"} {
		for _, options := range []string{"-O ^64bit", "-O 64bit", "-b 1024"} {
			if open == "jo" {
				options += " -O ^metadata_csum" // checksums in these versions require metadata_csum
			}
			t.Run(open+options, func(t *testing.T) {
				image := makeImage(t, smallTree(t), "32M", strings.Fields(options)...)
				size := int(openImage(t, image).blockSize)
				script(t, image, open,
					"jw -b 7000,7001,7002,7003,7004 "+blocksFile(t, size, 5, 'a'),
					"jw -b 7001 "+blocksFile(t, size, 1, 'r'),
					"jw -r 7003,7004",
					"jw -b 7004 "+blocksFile(t, size, 1, 'x'),
					"jw -b 7001 -c "+blocksFile(t, size, 1, 'l'), "jc")
				found := recovered(t, image)
				if len(found) != 4 || found[7002].escaped == false {
					t.Errorf("in the journal: %v", found)
				}
				fsys := openImage(t, image)
				block := make([]byte, size)
				for number, want := range map[int64]byte{7000: 'a', 7001: 'r', 7002: 0xc0, 7003: 0, 7004: 'x'} {
					if err := fsys.read(block, number*int64(size)); err != nil || block[0] != want {
						t.Errorf("block %d begins with %q, %v", number, block[0], err)
					}
				}
				piece := make([]byte, 3*size)
				if err := fsys.read(piece, int64(7001*size+2)); err != nil || piece[0] != 'r' || string(piece[size-2:][:4]) != "\xc0\x3b\x39\x98" || piece[2*size] != 0 {
					t.Errorf("across blocks: %q %q %q, %v", piece[0], piece[size-2:][:4], piece[2*size], err)
				}
			})
		}
	}
}

// journaled creates a small image whose journal contains a new version of a directory.
func journaled(t testing.TB, open string, options ...string) []byte {
	t.Helper()
	image := makeImage(t, smallTree(t), "4M", append([]string{"-b", "1024", "-J", "size=1"}, options...)...)
	fsys := openImage(t, image)
	found, err := fsys.lookup("names")
	if err != nil {
		t.Fatal(err)
	}
	r, err := fsys.find(found.inode, 0)
	if err != nil {
		t.Fatal(err)
	}
	content := make([]byte, 1024)
	if err := fsys.read(content, r.start*1024); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "block")
	if err := os.WriteFile(path, bytes.ReplaceAll(content, []byte("plain"), []byte("later")), 0o600); err != nil {
		t.Fatal(err)
	}
	script(t, image, open, fmt.Sprintf("jw -b %d %s", r.start, path), "jw -r 3000", fmt.Sprintf("jw -b %d %s", r.start, path), "jc")
	raw, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// journalBlocks returns the byte offsets of the first blocks of the journal.
func journalBlocks(t testing.TB, raw []byte, count int64) (places []int64) {
	t.Helper()
	fsys, err := openBytes(raw)
	if err != nil {
		t.Fatal(err)
	}
	file, err := fsys.anyInode(fsys.journal)
	if err != nil {
		t.Fatal(err)
	}
	for block := range count {
		at, err := fsys.find(file, block)
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, at.start*1024)
	}
	return places
}

// TestHostileJournals changes one detail of a journal, and checks the resulting error.
func TestHostileJournals(t *testing.T) {
	for _, form := range []string{"jo", "jo -c -v 3"} {
		checked := form != "jo"
		good := journaled(t, form, "-O", map[bool]string{true: "metadata_csum", false: "^metadata_csum"}[checked])
		fsys, err := openBytes(good)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fsys.Lstat("names/later"); err != nil || len(fsys.replayed) != 1 {
			t.Fatalf("%v, %v", fsys.replayed, err)
		}
		places := journalBlocks(t, good, 9)
		put := func(block, offset int, v uint32) func(b []byte) {
			return func(b []byte) { binary.BigEndian.PutUint32(b[int(places[block])+offset:], v) }
		}
		for name, c := range map[string]struct {
			change func([]byte)
			want   error
			says   string
			last   string // the last name in the directory, after the changes
		}{
			"as it was":            {func([]byte) {}, nil, "", "later"},
			"no superblock":        {put(0, 0, 0), ErrCorrupt, "no superblock", ""},
			"no known superblock":  {put(0, 4, 1), ErrCorrupt, "no superblock", ""},
			"other blocks":         {put(0, 0xc, 2048), ErrCorrupt, "2048 bytes", ""},
			"longer than its file": {put(0, 0x10, 1<<20), ErrCorrupt, "1048576 blocks", ""},
			"endless":              {put(0, 0x10, 1<<32-1), ErrCorrupt, "4294967295 blocks", ""},
			"no first block":       {put(0, 0x14, 0), ErrCorrupt, "a journal of", ""},
			"a late first block":   {put(0, 0x14, 1<<31), ErrCorrupt, "a journal of", ""},
			"begins behind":        {put(0, 0x1c, 1<<31), ErrCorrupt, "at block 2147483648", ""},
			"nothing in it":        {put(0, 0x1c, 0), nil, "", "plain"},
			"another transaction":  {put(0, 0x18, 77), nil, "", "plain"},
			"fast commits":         {put(0, 0x28, 0x20), errors.ErrUnsupported, "fast commits", ""},
			"asynchronous":         {put(0, 0x28, 0x4), errors.ErrUnsupported, "asynchronously", ""},
			"of the future":        {put(0, 0x28, 1<<20), errors.ErrUnsupported, "unknown features", ""},
			"not ended":            {put(3, 0, 0), nil, "", "plain"},
			"an unknown block":     {put(3, 4, 99), nil, "", "plain"},
		} {
			raw := slices.Clone(good)
			c.change(raw)
			fsys, err := openBytes(raw)
			if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
			if err == nil {
				if _, err := fsys.Lstat("names/" + c.last); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				explore(t, fsys)
			}
		}
		raw := slices.Clone(good)
		put(1, journalHeader, 1<<31)(raw) // content for a block outside of the file system
		fsys, err = openBytes(raw)
		if checked && (err != nil || len(fsys.replayed) != 0) || !checked && !errors.Is(err, ErrCorrupt) {
			t.Errorf("a block outside: %v", err)
		}
		raw = slices.Clone(good)
		put(2, 100, 0x12345678)(raw) // other content
		if _, err = openBytes(raw); checked && !errors.Is(err, ErrCorrupt) || !checked && err != nil {
			t.Errorf("other content: %v", err)
		}
	}
}

func TestCircularJournalEnds(t *testing.T) {
	raw := journaled(t, "jo", "-O", "^metadata_csum")
	places := journalBlocks(t, raw, 1024)
	first := slices.Clone(raw[places[1]:][:1024])
	for _, at := range places[1:] { // descriptor blocks without a commit
		copy(raw[at:], first)
	}
	if fsys, err := openBytes(raw); err != nil || len(fsys.replayed) != 0 {
		t.Error(err)
	}
}

// FuzzJournal changes bytes of journals. Each change consists of an offset of two bytes into the
// first blocks of the journal, and the new value.
func FuzzJournal(f *testing.F) {
	images := [][]byte{journaled(f, "jo", "-O", "^metadata_csum"), journaled(f, "jo -c -v 3", "-O", "metadata_csum"), journaled(f, "jo", "-O", "^metadata_csum,^64bit")}
	var places [][]int64
	for _, raw := range images {
		places = append(places, journalBlocks(f, raw, 9))
	}
	f.Add([]byte{0})
	f.Add([]byte{1, 0, 0x1f, 2, 4, 0x0c, 9})
	f.Add([]byte{2, 0, 0x2b, 1, 4, 7, 5})
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) == 0 {
			return
		}
		which := int(input[0]) % len(images)
		raw := slices.Clone(images[which])
		for changes := input[1:]; len(changes) >= 3; changes = changes[3:] {
			at := (int64(changes[0])<<8 | int64(changes[1])) % (9 * 1024)
			raw[places[which][at/1024]+at%1024] = changes[2]
		}
		fsys, err := openBytes(raw)
		if err == nil {
			explore(t, fsys)
		} else if !errors.Is(err, ErrCorrupt) && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(err)
		}
	})
}
