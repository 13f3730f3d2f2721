package ext4

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// smallTree creates a tree for an image of a few hundred KiB. With blocks of 1 KiB, one of its
// files needs an extent tree node outside of its inode.
func smallTree(t testing.TB) string {
	t.Helper()
	top := t.TempDir()
	for _, dir := range []string{"a/b", "c", "names"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range []string{"a/f", "a/b/g", "names/slashXname", "names/zeroXname", "names/twin-1", "names/twin-2", "names/plain"} {
		if err := os.WriteFile(filepath.Join(top, name), []byte(strings.Repeat(name, 1+i)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sparse(t, filepath.Join(top, "comb"), 64<<10, []int64{0, 8192, 16384, 24576, 32768, 49152}, []byte(strings.Repeat("comb", 256)))
	for name, target := range map[string]string{"short": "a/f", "long": strings.Repeat("long", 50)} {
		if err := os.Symlink(target, filepath.Join(top, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(top, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	return top
}

func smallImage(t testing.TB, options ...string) string {
	t.Helper()
	return makeImage(t, smallTree(t), "256K", append([]string{"-b", "1024", "-N", "32"}, options...)...)
}

func smallBytes(t testing.TB, options ...string) []byte {
	t.Helper()
	raw, err := os.ReadFile(smallImage(t, options...))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestSmallImagesHaveChangedStructures checks that small images contain the structures that the
// tests below change.
func TestSmallImagesHaveChangedStructures(t *testing.T) {
	fsys := openImage(t, smallImage(t))
	if comb, f := depthOfFile(t, fsys, "comb"), depthOfFile(t, fsys, "a/f"); comb != 1 || f != 0 {
		t.Errorf("extent trees of %d and %d levels", comb, f)
	}
	for _, name := range []string{"a/b/g", "c", "short", "long", "names/slashXname", "names/zeroXname", "names/twin-2"} {
		if err := readAny(fsys, name); err != nil {
			t.Error(err)
		}
	}
}

func openBytes(raw []byte) (*FS, error) { return Open(bytes.NewReader(raw), int64(len(raw))) }

func TestSuperblocks(t *testing.T) {
	good := smallBytes(t)
	put16 := func(at int, v uint16) func([]byte) {
		return func(s []byte) { binary.LittleEndian.PutUint16(s[at:], v) }
	}
	put32 := func(at int, v uint32) func([]byte) {
		return func(s []byte) { binary.LittleEndian.PutUint32(s[at:], v) }
	}
	feature := func(bit uint32) func([]byte) { return func(s []byte) { s[0x60+bit/8] |= 1 << (bit % 8) } }
	for name, c := range map[string]struct {
		change func([]byte)
		want   error
		says   string
	}{
		"as it was":              {func([]byte) {}, nil, ""},
		"no mark":                {put16(0x38, 0), ErrCorrupt, "no superblock"},
		"old revision":           {put32(0x4c, 0), errors.ErrUnsupported, "revision 0"},
		"huge blocks":            {put32(0x18, 7), ErrCorrupt, "1 KiB << 7"},
		"endless shift":          {put32(0x18, 1<<32-1), ErrCorrupt, "blocks of"},
		"more blocks than bytes": {put32(0x4, 257), ErrCorrupt, "257 blocks"},
		"blocks of 64 bits":      {put32(0x150, 1<<31), ErrCorrupt, "blocks of 1024 bytes"},
		"no blocks":              {put32(0x4, 0), nil, ""},
		"no inode size":          {put16(0x58, 0), ErrCorrupt, "inodes of 0"},
		"odd inode size":         {put16(0x58, 200), ErrCorrupt, "inodes of 200"},
		"large inode size":       {put16(0x58, 2048), ErrCorrupt, "inodes of 2048"},
		"no inodes in a group":   {put32(0x28, 0), ErrCorrupt, "groups of 0"},
		"huge groups":            {put32(0x28, 8193), ErrCorrupt, "groups of 8193"},
		"special inodes":         {put32(0x54, 2), ErrCorrupt, "inode of a file is 2"},
		"small descriptors":      {put16(0xfe, 32), ErrCorrupt, "descriptors of 32"},
		"odd descriptors":        {put16(0xfe, 72), ErrCorrupt, "descriptors of 72"},
		"large descriptors":      {put16(0xfe, 2048), ErrCorrupt, "descriptors of 2048"},
		"no journal":             {feature(2), ErrCorrupt, "no journal"},
		"journal device":         {feature(3), errors.ErrUnsupported, "journal_dev"},
		"meta_bg":                {feature(4), errors.ErrUnsupported, "meta_bg"},
		"inline_data":            {feature(15), errors.ErrUnsupported, "inline_data"},
		"encrypt":                {feature(16), errors.ErrUnsupported, "encrypt"},
		"casefold":               {feature(17), errors.ErrUnsupported, "casefold"},
		"unknown":                {feature(30), errors.ErrUnsupported, "0x40000000"},
		"unknown to writers":     {func(s []byte) { s[0x67] |= 0x80 }, nil, ""},
	} {
		raw := slices.Clone(good)
		c.change(raw[superblockAt:])
		fsys, err := openBytes(raw)
		if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if err == nil {
			explore(t, fsys)
		}
	}
	for _, size := range []int64{-1, 0, 1023, 1024, 2047} {
		if _, err := Open(bytes.NewReader(good), size); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if _, err := openBytes(good[:len(good)-1]); !errors.Is(err, ErrCorrupt) {
		t.Errorf("cut: %v", err)
	}
	short, err := Open(bytes.NewReader(good[:4096]), int64(len(good)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := short.ReadDir("."); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("file shorter than its size: got %v", err)
	}
}

func TestOldAndOtherFiles(t *testing.T) {
	old := openImage(t, smallImage(t, "-O", "^extent,^64bit"))
	if _, err := old.ReadDir("."); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "block map of ext2") {
		t.Errorf("got %v", err)
	}
	if _, err := openBytes(smallBytes(t, "-O", "inline_data")); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
	mixed := smallImage(t)
	change(t, mixed, "set_inode_field /a/f flags 0", "set_inode_field /short flags 0", "set_inode_field /comb flags 0x10080000", "set_inode_field /a/b/g flags 0x80800")
	fsys := openImage(t, mixed)
	for name, says := range map[string]string{"a/f": "block map of ext2", "comb": "inline_data", "a/b/g": "encrypt"} {
		if _, err := fsys.Open(name); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if target, err := fsys.ReadLink("short"); target != "a/f" || err != nil {
		t.Errorf("%q, %v", target, err)
	}
}

// TestDamage changes one detail of an image, and checks which paths then fail.
func TestDamage(t *testing.T) {
	const corrupt, fine = true, false
	for name, c := range map[string]struct {
		commands []string
		paths    map[string]bool
	}{
		"a loop":                  {[]string{"link /a /a/b/loop"}, map[string]bool{"a": fine, "a/b": fine, "a/b/loop": corrupt, "a/b/loop/f": corrupt}},
		"a way to the root":       {[]string{"link / /c/root", "link / /root"}, map[string]bool{"c": fine, "c/root": corrupt, "root": corrupt, "root/a": corrupt}},
		"two names for one":       {[]string{"link /a /a2"}, map[string]bool{"a": fine, "a/f": fine, "a2": corrupt, "a2/f": corrupt}},
		"a cousin":                {[]string{"link /a/b /c/b"}, map[string]bool{"a/b": fine, "c/b": corrupt}},
		"no kind":                 {[]string{"set_inode_field /a/f mode 0"}, map[string]bool{"a": fine, "a/f": corrupt, "a/b": fine}},
		"unknown kind":            {[]string{"set_inode_field /a/f mode 0170644"}, map[string]bool{"a": fine, "a/f": corrupt}},
		"removed":                 {[]string{"set_inode_field /a/f links_count 0"}, map[string]bool{"a": fine, "a/f": corrupt}},
		"the journal's inode":     {[]string{"link <8> /c/journal"}, map[string]bool{"c": fine, "c/journal": corrupt}},
		"the largest size":        {[]string{"set_inode_field /a/f size 0x7fffffffffffffff"}, map[string]bool{"a/f": corrupt}},
		"a negative size":         {[]string{"set_inode_field /a/f size 0xffffffffffffffff"}, map[string]bool{"a/f": corrupt}},
		"an odd directory":        {[]string{"set_inode_field /a size 1000"}, map[string]bool{"c": fine, "a": corrupt, "a/f": corrupt}},
		"an empty directory":      {[]string{"set_inode_field /a size 0"}, map[string]bool{"a": corrupt}},
		"a directory with holes":  {[]string{"set_inode_field /a size 2048"}, map[string]bool{"a": corrupt}},
		"a file as a directory":   {[]string{"set_inode_field /a/f mode 040755", "set_inode_field /a/f size 1024"}, map[string]bool{"a": fine, "a/f": corrupt}},
		"a long link":             {[]string{"set_inode_field /long size 4096"}, map[string]bool{"long": corrupt}},
		"an empty link":           {[]string{"set_inode_field /short size 0"}, map[string]bool{"short": corrupt}},
		"a link with zeros":       {[]string{"set_inode_field /short size 5"}, map[string]bool{"short": corrupt}},
		"no mark of a tree":       {[]string{"set_inode_field /comb block[0] 0x1f30b"}, map[string]bool{"comb": corrupt}},
		"five entries":            {[]string{"set_inode_field /comb block[0] 0x5f30a"}, map[string]bool{"comb": corrupt}},
		"a deep tree":             {[]string{"set_inode_field /comb block[1] 0x60004"}, map[string]bool{"comb": corrupt}},
		"a tree of wrong depth":   {[]string{"set_inode_field /comb block[1] 0x20004"}, map[string]bool{"comb": corrupt}},
		"a node outside":          {[]string{"set_inode_field /comb block[4] 0xfffffff"}, map[string]bool{"comb": corrupt}},
		"a node at the beginning": {[]string{"set_inode_field /comb block[4] 0"}, map[string]bool{"comb": corrupt}},
		"an extent outside":       {[]string{"set_inode_field /a/f block[5] 256"}, map[string]bool{"a/f": corrupt}},
		"an extent far outside":   {[]string{"set_inode_field /a/f block[4] 0xffff0001"}, map[string]bool{"a/f": corrupt}},
		"an empty extent":         {[]string{"set_inode_field /a/f block[4] 0"}, map[string]bool{"a/f": corrupt}},
		"an extent of zero":       {[]string{"set_inode_field /a/f block[5] 0"}, map[string]bool{"a/f": corrupt}},
		"no extent":               {[]string{"set_inode_field /a/f block[0] 0xf30a"}, map[string]bool{"a/f": fine}},
	} {
		t.Run(name, func(t *testing.T) {
			image := smallImage(t)
			change(t, image, c.commands...)
			fsys := openImage(t, image)
			for name, bad := range c.paths {
				if err := readAny(fsys, name); (err != nil) != bad || bad && !errors.Is(err, ErrCorrupt) {
					t.Errorf("%s: %v", name, err)
				}
			}
			explore(t, fsys)
		})
	}
}

// readAny reads the file, directory or symbolic link at a path.
func readAny(fsys *FS, name string) error {
	info, err := fsys.Lstat(name)
	switch {
	case err != nil:
	case info.IsDir():
		_, err = fsys.ReadDir(name)
	case info.Mode()&fs.ModeSymlink != 0:
		_, err = fsys.ReadLink(name)
	default:
		_, err = fs.ReadFile(fsys, name)
	}
	return err
}

// TestOversizedDirectoriesAreRejected checks that no memory is allocated for oversized directories
// before they are rejected.
func TestOversizedDirectoriesAreRejected(t *testing.T) {
	image := smallImage(t)
	change(t, image, "set_inode_field /a size 0x80000000")
	if err := readAny(openImage(t, image), "a"); err == nil || !strings.Contains(err.Error(), "2048 MiB") {
		t.Errorf("got %v", err)
	}
	var d directory
	block, err := make([]byte, 0, 64<<10), error(nil)
	const names = 64 << 10 / 16
	for i := range names {
		block = append(binary.LittleEndian.AppendUint32(block, 12), 16, 0, 8, 0)
		block = fmt.Appendf(block, "%08d", i)
	}
	blocks := 0
	for ; err == nil; blocks++ {
		err = d.add(block)
	}
	if blocks != maxEntries/names+1 {
		t.Errorf("%d blocks: %v", blocks, err)
	}
}

// TestStrangeNames checks directories with duplicate names and with names that no path can contain.
func TestStrangeNames(t *testing.T) {
	raw := smallBytes(t)
	for from, to := range map[string]string{"slashXname": "slash/name", "zeroXname": "zero\x00name", "twin-2": "twin-1"} {
		raw = bytes.ReplaceAll(raw, []byte(from), []byte(to))
	}
	fsys, err := openBytes(raw)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := fsys.ReadDir("names")
	if err != nil || len(entries) != 2 || entries[0].Name() != "plain" || entries[1].Name() != "twin-1" {
		t.Errorf("%v, %v", entries, err)
	}
	for _, name := range []string{"names/slash/name", "names/zero\x00name", "names/twin-2"} {
		if _, err := fsys.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", name, err)
		}
	}
	explore(t, fsys)
}
