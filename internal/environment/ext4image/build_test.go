package ext4image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/disk/ext4"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func archiveOf(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		content := make([]byte, h.Size)
		for i := range content {
			content[i] = byte(i*7 + 1)
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func reg(name string, size int64) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644}
}

func debugfs(t *testing.T, image, command string) string {
	t.Helper()
	tool := testenv.NeedsTool(t, "debugfs")
	out, err := exec.Command(tool, "-R", command, image).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestBuildKeepsAttributes(t *testing.T) {
	image := filepath.Join(t.TempDir(), "image")
	capability := "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	long := strings.Repeat("x", 200)
	archive := archiveOf(t,
		tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755},
		tar.Header{Typeflag: tar.TypeReg, Name: "./bin/ping", Size: 100_000, Mode: 0o4755, Uid: 7, Gid: 70000,
			PAXRecords: map[string]string{"SCHILY.xattr.security.capability": capability, "SCHILY.xattr.trusted.overlay.opaque": "y"}},
		tar.Header{Typeflag: tar.TypeLink, Name: "bin/ping6", Linkname: "./bin/ping"},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/short", Linkname: "/etc/../../x"},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/long", Linkname: long},
		tar.Header{Typeflag: tar.TypeChar, Name: "dev/null", Mode: 0o666, Devmajor: 1, Devminor: 3},
		tar.Header{Typeflag: tar.TypeFifo, Name: "run/pipe", Mode: 0o600},
		tar.Header{Typeflag: tar.TypeDir, Name: "bin", Mode: 0o711},
	)
	if err := Build(t.Context(), bytes.NewReader(archive), image, Limits{}); err != nil {
		t.Fatal(err)
	}
	if err := Check(t.Context(), image); err != nil {
		t.Error(err)
	}
	for command, want := range map[string][]string{
		"stat bin/ping":                       {"Mode:  04755", "User:     7   Group: 70000", "Links: 2", "Size: 100000"},
		"ea_list bin/ping":                    {"security.capability (20)"},
		"stat bin/short":                      {`Fast link dest: "/etc/../../x"`},
		"cat bin/long":                        {long},
		"stat dev/null":                       {"Type: character special", "01:03"},
		"stat run/pipe":                       {"Type: FIFO"},
		"stat bin":                            {"Mode:  0711"},
		"show_super_stats -h":                 {"Filesystem volume name:   pyro-root", "dir_index", "Block count:              4194304"},
		"ls -p /":                             {"lost+found"},
		"dump bin/ping " + image + ".content": {""},
	} {
		got := debugfs(t, image, command)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: %q is not in\n%s", command, w, got)
			}
		}
	}
	if got := debugfs(t, image, "ea_list bin/ping"); strings.Contains(got, "trusted") {
		t.Error("got an attribute of the host's overlay")
	}
	content, err := os.ReadFile(image + ".content")
	if err != nil || len(content) != 100_000 || content[99_999] != byte(99_999*7%256+1) {
		t.Errorf("the content changed: got %d bytes, %v", len(content), err)
	}
}

func TestImagesAreSparseAndReproducible(t *testing.T) {
	archive := archiveOf(t, reg("a", 3<<20), reg("b", 1))
	var first string
	for i := range 2 {
		image := filepath.Join(t.TempDir(), "image")
		if err := Build(t.Context(), bytes.NewReader(archive), image, Limits{}); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(image); err != nil || info.Size() != VirtualSize {
			t.Fatalf("size %d, %v", info.Size(), err)
		}
		if n, _ := disk.Allocated(image); n > 16<<20 {
			t.Errorf("%d MiB for 3 MiB of files", n>>20)
		}
		digest, err := disk.Hash(image, nil)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = digest
			time.Sleep(1100 * time.Millisecond) // Times in ext4 have a resolution of one second.
		} else if digest != first {
			t.Error("two builds differ")
		}
		var inodes int
		for line := range strings.Lines(debugfs(t, image, "show_super_stats -h")) {
			fmt.Sscanf(line, "Inode count: %d", &inodes)
		}
		if inodes < 400_000 {
			t.Errorf("only %d inodes", inodes)
		}
	}
}

func TestHostileArchives(t *testing.T) {
	whole := archiveOf(t, reg("a", 100_000))
	for name, c := range map[string]struct {
		archive []byte
		limits  Limits
		kind    fault.Kind
	}{
		"climbing name":               {archive: archiveOf(t, reg("../etc/passwd", 1)), kind: fault.Corrupt},
		"climbing inside":             {archive: archiveOf(t, reg("a/../../b", 1)), kind: fault.Corrupt},
		"climbing hard link":          {archive: archiveOf(t, tar.Header{Typeflag: tar.TypeLink, Name: "a", Linkname: "../../etc/shadow"}), kind: fault.Corrupt},
		"hard link to a missing file": {archive: archiveOf(t, tar.Header{Typeflag: tar.TypeLink, Name: "a", Linkname: "b"}), kind: fault.Corrupt},
		"hard link to a directory":    {archive: archiveOf(t, tar.Header{Typeflag: tar.TypeDir, Name: "d"}, tar.Header{Typeflag: tar.TypeLink, Name: "a", Linkname: "d"}), kind: fault.Corrupt},
		"hard link to itself":         {archive: archiveOf(t, tar.Header{Typeflag: tar.TypeLink, Name: "a", Linkname: "a"}), kind: fault.Corrupt},
		"file as folder":              {archive: archiveOf(t, reg("a", 1), reg("a/b", 1)), kind: fault.Corrupt},
		"folder becomes file":         {archive: archiveOf(t, reg("a/b", 1), reg("a", 1)), kind: fault.Corrupt},
		"the same name twice":         {archive: archiveOf(t, reg("a", 1), reg("a", 1)), kind: fault.Corrupt},
		"long component":              {archive: archiveOf(t, reg(strings.Repeat("n", 256), 1)), kind: fault.Corrupt},
		"long path":                   {archive: archiveOf(t, reg(strings.Repeat("n/", 2100)+"n", 1)), kind: fault.Corrupt},
		"impossible device":           {archive: archiveOf(t, tar.Header{Typeflag: tar.TypeBlock, Name: "a", Devmajor: 1 << 20}), kind: fault.Corrupt},
		"invalid owner":               {archive: archiveOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "a", Uid: 1 << 33}), kind: fault.Corrupt},
		"endless link":                {archive: archiveOf(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "a", Linkname: strings.Repeat("l", 5000)}), kind: fault.Corrupt},
		"empty link":                  {archive: archiveOf(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "a"}), kind: fault.Corrupt},
		"unknown kind":                {archive: archiveOf(t, tar.Header{Typeflag: 'Z', Name: "a"}), kind: fault.Corrupt},
		"no archive":                  {archive: []byte(strings.Repeat("no archive at all ", 100)), kind: fault.Corrupt},
		"cut":                         {archive: whole[:50_000], kind: fault.Corrupt},
		"too many files":              {archive: archiveOf(t, reg("a", 1), reg("b", 1)), limits: Limits{Entries: 1}, kind: fault.Exhausted},
		"too large":                   {archive: whole, limits: Limits{Bytes: 99_999}, kind: fault.Exhausted},
		"said to be huge":             {archive: hugeClaim(t), limits: Limits{Bytes: 8 << 30}, kind: fault.Exhausted},
		"larger than any image":       {archive: hugeClaim(t), kind: fault.Corrupt},
		"a thousand attributes":       {archive: manyXattrs(t), kind: ""},
		"attributes of many folders":  {archive: foldersWithXattrs(t), kind: fault.Exhausted},
		"absolute name":               {archive: archiveOf(t, reg("/etc/passwd", 1)), kind: ""},
		"link out of the root":        {archive: archiveOf(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "a", Linkname: "../../../etc/passwd"}), kind: ""},
		"before and after time":       {archive: archiveOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "a", ModTime: time.Unix(-1<<40, 0), Format: tar.FormatPAX}, tar.Header{Typeflag: tar.TypeReg, Name: "b", ModTime: time.Unix(1<<40, 0), Format: tar.FormatPAX}), kind: ""},
		"nothing":                     {archive: archiveOf(t), kind: ""},
		"wants to be lost+found":      {archive: archiveOf(t, reg("lost+found", 1)), kind: fault.Corrupt},
	} {
		t.Run(name, func(t *testing.T) {
			image := filepath.Join(t.TempDir(), "image")
			err := Build(t.Context(), bytes.NewReader(c.archive), image, c.limits)
			if fault.KindOf(err) != c.kind {
				t.Fatalf("kind %q, want %q: %v", fault.KindOf(err), c.kind, err)
			}
			if err == nil {
				if err := Check(t.Context(), image); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// hugeClaim returns an archive with a file that claims to have a size of 64 GiB.
func hugeClaim(t *testing.T) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "huge", Size: 64 << 30, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func manyXattrs(t *testing.T) []byte {
	records := map[string]string{}
	for i := range 1000 {
		records[fmt.Sprintf("SCHILY.xattr.user.%d", i)] = strings.Repeat("v", 150)
	}
	return archiveOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "a", PAXRecords: records, Format: tar.FormatPAX})
}

// foldersWithXattrs returns an archive whose folders have more attributes than are allowed.
func foldersWithXattrs(t *testing.T) []byte {
	records := map[string]string{}
	for i := range maxXattrs {
		records[fmt.Sprintf("SCHILY.xattr.user.%d", i)] = strings.Repeat("v", 190)
	}
	var entries []tar.Header
	for i := range maxFolderXattrs/190/maxXattrs + 1 {
		entries = append(entries, tar.Header{Typeflag: tar.TypeDir, Name: fmt.Sprint(i), PAXRecords: records, Format: tar.FormatPAX})
	}
	return archiveOf(t, entries...)
}

func TestSourceErrorsAreReturned(t *testing.T) {
	broken := errors.New("the wire broke")
	in := io.MultiReader(bytes.NewReader(archiveOf(t, reg("a", 100_000))[:50_000]), errorReader{broken})
	if err := Build(t.Context(), in, filepath.Join(t.TempDir(), "image"), Limits{}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Build(ctx, bytes.NewReader(archiveOf(t, reg("a", 1))), filepath.Join(t.TempDir(), "image"), Limits{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

type errorReader struct{ err error }

func (e errorReader) Read([]byte) (int, error) { return 0, e.err }

func TestChangedImagesAreNotClean(t *testing.T) {
	image := filepath.Join(t.TempDir(), "image")
	if err := Build(t.Context(), bytes.NewReader(archiveOf(t, reg("a", 100_000))), image, Limits{}); err != nil {
		t.Fatal(err)
	}
	tool := testenv.NeedsTool(t, "debugfs")
	if err := exec.Command(tool, "-w", "-R", "clri /a", image).Run(); err != nil {
		t.Fatal(err)
	}
	if err := Check(t.Context(), image); fault.KindOf(err) != fault.Corrupt {
		t.Errorf("got %v", err)
	}
}

// FuzzConvert checks that the filter rejects or cleans every entry, and that errors have known
// kinds. It also checks that images can be read back.
func FuzzConvert(f *testing.F) {
	f.Add(archiveOf(f, reg("a/b", 10), tar.Header{Typeflag: tar.TypeLink, Name: "c", Linkname: "a/b"}))
	f.Add(archiveOf(f, tar.Header{Typeflag: tar.TypeSymlink, Name: "s", Linkname: strings.Repeat("t", 80)}, tar.Header{Typeflag: tar.TypeDir, Name: "s2"}))
	f.Add(archiveOf(f, tar.Header{Typeflag: tar.TypeReg, Name: "x", PAXRecords: map[string]string{"SCHILY.xattr.user.a": "b"}}))
	f.Fuzz(func(t *testing.T, archive []byte) {
		size, entries := int64(0), 0
		limits := Limits{Bytes: 1 << 20, Entries: 100}
		filter(bytes.NewReader(archive), limits, func(h *tar.Header, _ io.Reader) error {
			size, entries = size+h.Size, entries+1
			return nil
		})
		if size > 1<<20 || entries > 100 {
			t.Fatalf("%d bytes in %d entries", size, entries)
		}
		image := filepath.Join(t.TempDir(), "image")
		if err := Build(t.Context(), bytes.NewReader(archive), image, limits); err != nil {
			if k := fault.KindOf(err); k != fault.Corrupt && k != fault.Exhausted {
				t.Fatalf("kind %q: %v", k, err)
			}
			return
		}
		if n, _ := disk.Allocated(image); n > 4<<20 {
			t.Fatalf("an image of %d bytes", n)
		}
		file, err := os.Open(image)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		fsys, err := ext4.OpenFile(file)
		if err != nil {
			t.Fatal(err)
		}
		err = fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				_, err = fs.ReadFile(fsys, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
