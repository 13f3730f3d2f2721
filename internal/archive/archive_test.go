package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var isRoot = os.Geteuid() == 0

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t testing.TB, path, content string, mode os.FileMode) {
	t.Helper()
	check(t, os.WriteFile(path, []byte(content), 0o600))
	check(t, os.Chmod(path, mode))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// run runs a program. It skips the test if the program is not installed.
func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	testenv.NeedsTool(t, name)
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func wantKind(t testing.TB, err error, kind fault.Kind, says string) {
	t.Helper()
	if fault.KindOf(err) != kind || err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("error %v of kind %q, want %q and %q", err, fault.KindOf(err), kind, says)
	}
}

// entry is an entry of a tar archive.
type entry = tar.Header

func file(name string) entry     { return entry{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: 5} }
func dir(name string) entry      { return entry{Typeflag: tar.TypeDir, Name: name, Mode: 0o755} }
func link(name, to string) entry { return entry{Typeflag: tar.TypeSymlink, Name: name, Linkname: to} }
func hard(name, to string) entry { return entry{Typeflag: tar.TypeLink, Name: name, Linkname: to} }

// archiveOf returns a tar archive. The content of each file repeats the index of its entry.
func archiveOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i, h := range entries {
		check(t, w.WriteHeader(&h))
		_, err := w.Write(bytes.Repeat([]byte{byte('0' + i)}, int(h.Size)))
		check(t, err)
	}
	check(t, w.Close())
	return b.Bytes()
}

// read returns the entries and file contents of a stream. It fails the test if the stream lacks a
// property that WriteTar guarantees.
func read(t testing.TB, stream []byte) (entries []entry, content map[string]string) {
	t.Helper()
	content = map[string]string{}
	kinds := map[string]byte{".": tar.TypeDir}
	eachEntry(t, stream, func(h *tar.Header, r io.Reader) {
		name := strings.TrimSuffix(h.Name, "/")
		if _, again := kinds[name]; again || name != path.Clean(name) || !fs.ValidPath(strings.ToValidUTF8(name, "?")) || (name != h.Name) != (h.Typeflag == tar.TypeDir) {
			t.Errorf("%q: duplicate, or not a clean name", h.Name)
		}
		if kinds[path.Dir(name)] != tar.TypeDir {
			t.Errorf("%q: is before its folder, or in something else", h.Name)
		}
		kinds[name] = h.Typeflag
		switch h.Typeflag {
		case tar.TypeReg:
			b, err := io.ReadAll(r)
			check(t, err)
			content[name] = string(b)
		case tar.TypeLink:
			if kinds[h.Linkname] != tar.TypeReg {
				t.Errorf("%q: hard link to %q, which is not an earlier file", h.Name, h.Linkname)
			}
			content[name] = content[h.Linkname]
		case tar.TypeSymlink:
			if h.Linkname == "" || len(h.Linkname) >= 4096 {
				t.Errorf("%q: is a link to %q", h.Name, h.Linkname)
			}
		case tar.TypeDir:
		default:
			t.Errorf("%q: is of kind %q", h.Name, h.Typeflag)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" || h.Mode&^0o7777 != 0 || h.Format&tar.FormatGNU != 0 {
			t.Errorf("%q: %+v", h.Name, h)
		}
		entries = append(entries, *h)
	})
	return entries, content
}

// eachEntry calls a function for each entry of a stream.
func eachEntry(t testing.TB, stream []byte, entry func(h *tar.Header, content io.Reader)) {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(stream)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		check(t, err)
		entry(h, r)
	}
}

// seed writes the source at path as a tar stream.
func seed(t testing.TB, path string, policy Policy) ([]byte, Summary, error) {
	t.Helper()
	source, err := Open(path)
	if err != nil {
		return nil, Summary{}, err
	}
	defer source.Close()
	var b bytes.Buffer
	summary, err := source.WriteTar(t.Context(), &b, policy)
	return b.Bytes(), summary, err
}

// project creates a directory that contains every kind of file that a source is allowed to contain.
func project(t testing.TB) string {
	t.Helper()
	top := filepath.Join(t.TempDir(), "project")
	in := func(name string) string { return filepath.Join(top, name) }
	for _, d := range []string{"src/deep/er", "empty", "shared", "größe/日本", "closed", strings.Repeat("long/", 40)} {
		check(t, os.MkdirAll(in(d), 0o755))
	}
	put(t, in("src/main.go"), "package main\n", 0o644)
	put(t, in("src/run"), "#!/bin/sh\n", 0o755)
	put(t, in("src/suid"), "x", 0o755|os.ModeSetuid|os.ModeSetgid)
	put(t, in("src/deep/er/big"), strings.Repeat("0123456789abcdef", 100_000), 0o600)
	put(t, in("nothing"), "", 0o444)
	put(t, in("größe/日本/smörgåsbord"), "ü", 0o640)
	put(t, in("not\xffutf8"), "y", 0o644)
	put(t, in(strings.Repeat("n", 255)), "z", 0o644)
	put(t, in(strings.Repeat("long/", 40)+"leaf"), "leaf", 0o644)
	check(t, os.Link(in("src/main.go"), in("again.go")))
	check(t, os.Link(in("src/main.go"), in("zzz.go")))
	check(t, os.Symlink("src/main.go", in("link")))
	check(t, os.Symlink("/usr/bin/python3", in("src/python")))
	check(t, os.Symlink("../../..", in("up")))
	check(t, os.Symlink(strings.Repeat("l", 4095), in("longlink")))
	sparse, err := os.Create(in("sparse"))
	check(t, err)
	check(t, sparse.Truncate(3<<20))
	_, err = sparse.WriteAt([]byte("data"), 1<<20)
	check(t, errors.Join(err, sparse.Close()))
	check(t, os.Chmod(in("shared"), 0o777|os.ModeSticky))
	check(t, os.Chmod(in("closed"), 0o500))
	for i, name := range []string{"src", "empty", "src/run", "closed", "nothing"} {
		check(t, os.Chtimes(in(name), time.Time{}, time.Unix(int64(i)*100_000_000-1, 123_456_789)))
	}
	check(t, unix.UtimesNanoAt(unix.AT_FDCWD, in("link"), []unix.Timespec{{Sec: 1}, {Sec: 1_234_567_890, Nsec: 987_654_321}}, unix.AT_SYMLINK_NOFOLLOW))
	return top
}

// sockets creates files that machines never get. It returns the number of these files.
func sockets(t testing.TB, top string) int {
	t.Helper()
	check(t, unix.Mkfifo(filepath.Join(top, "fifo"), 0o600))
	check(t, unix.Mknod(filepath.Join(top, "socket"), unix.S_IFSOCK|0o600, 0))
	if !isRoot {
		return 2
	}
	check(t, unix.Mknod(filepath.Join(top, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	return 3
}

// describe lists the properties of a tree that imports and exports must preserve.
func describe(t testing.TB, top string) []string {
	t.Helper()
	var all []string
	inodes := map[uint64]string{}
	check(t, filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(top, path)
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		line := fmt.Sprintf("%q %o %d.%09d", name, st.Mode, st.Mtim.Sec, st.Mtim.Nsec)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			if _, met := inodes[st.Ino]; !met {
				inodes[st.Ino] = name
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %d links, as %q, %d bytes of %.40q", st.Nlink, inodes[st.Ino], len(b), b)
		case unix.S_IFLNK:
			text, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " to " + text
		}
		all = append(all, line)
		return nil
	}))
	return all
}

// same fails the test if the descriptions of two trees differ.
func same(t testing.TB, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		g, w := "", ""
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("got  %s\nwant %s", g, w)
			return
		}
	}
}

// fixChecksums corrects the header checksums of a tar archive. With correct checksums a fuzzer
// reaches the code behind the checksum check.
func fixChecksums(b []byte) []byte {
	b = bytes.Clone(b)
	for at := 0; at+512 <= len(b); at += 512 {
		header := b[at : at+512]
		if string(header[257:262]) != "ustar" {
			continue
		}
		copy(header[148:], "        ")
		sum := 0
		for _, c := range header {
			sum += int(c)
		}
		copy(header[148:], fmt.Sprintf("%06o\x00", sum))
	}
	return b
}
