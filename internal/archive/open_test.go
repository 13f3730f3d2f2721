package archive

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

func zipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(b)
	check(t, err)
	check(t, w.Close())
	return out.Bytes()
}

func TestOpenDetectsSources(t *testing.T) {
	top := t.TempDir()
	plain := archiveOf(t, file("f"))
	packed := zipped(t, plain)
	v7 := bytes.Clone(plain)
	copy(v7[257:265], make([]byte, 8)) // Remove the magic number of ustar, and correct the checksum.
	sum := 8 * int(' ')
	for i, b := range v7[:512] {
		if i < 148 || i >= 156 {
			sum += int(b)
		}
	}
	copy(v7[148:156], fmt.Sprintf("%06o\x00 ", sum))
	folder := filepath.Join(top, "folder.zip")
	check(t, os.Mkdir(folder, 0o755))
	check(t, unix.Mkfifo(filepath.Join(top, "fifo.tar"), 0o600))
	for _, c := range []struct {
		name    string
		content []byte
		kind    fault.Kind
		hint    string // contains <names> in place of paths
	}{
		{"folder.zip", nil, "", ""},
		{"a.tar", plain, "", ""},
		{"A.TAR", plain, "", ""},
		{"v7.tar", v7, "", ""},
		{"empty.tar", make([]byte, 10240), "", ""},
		{"a.tar.gz", packed, "", ""},
		{"a.tgz", packed, "", ""},
		{"A.Tgz", packed, "", ""},
		{"nothing.tar", []byte{}, fault.Invalid, ""},
		{"text.tar", bytes.Repeat([]byte("text"), 1000), fault.Invalid, ""},
		{"short.tar", plain[:511], fault.Invalid, ""},
		{"zipped.tar", packed, fault.Invalid, `mv <zipped.tar> <zipped.tar.gz>`},
		{"plain.tgz", plain, fault.Invalid, `mv <plain.tgz> <plain.tar>`},
		{"plain.tar.gz", plain, fault.Invalid, `mv <plain.tar.gz> <plain.tar>`},
		{"text.tgz", []byte("text"), fault.Invalid, ""},
		{"nothing.tar.gz", []byte{}, fault.Invalid, ""},
		{"a.zip", []byte("PK\x03\x04"), fault.Unsupported, `unzip <a.zip> -d <a>, and pass the directory`},
		{"a.tar.xz", []byte("\xfd7zXZ"), fault.Unsupported, `mkdir <a> && tar -xf <a.tar.xz> -C <a>, and pass the directory`},
		{"a.tar.zst", []byte("\x28\xb5\x2f\xfd"), fault.Unsupported, `mkdir <a> && tar -xf <a.tar.zst> -C <a>, and pass the directory`},
		{"a.bin", plain, fault.Unsupported, `mv <a.bin> <a.bin.tar>`},
		{"a.gz", packed, fault.Unsupported, `gzip -dc <a.gz> | tar -t, and if that is a tar archive, mv <a.gz> <a.tar.gz>`},
		{"a.txt", []byte("text"), fault.Unsupported, ""},
		{"fifo.tar", nil, fault.Unsupported, ""},
		{"none", nil, fault.NotFound, ""},
		{"none/none.tar", nil, fault.NotFound, ""},
	} {
		path := filepath.Join(top, c.name)
		if c.content != nil {
			check(t, os.WriteFile(path, c.content, 0o600))
		}
		source, err := Open(path)
		if (err == nil) != (c.kind == "") || fault.KindOf(err) != c.kind {
			t.Errorf("%s: %v of kind %q, want %q", c.name, err, fault.KindOf(err), c.kind)
		}
		if err == nil {
			if _, _, err := seed(t, path, Policy{}); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			check(t, source.Close())
			continue
		}
		in := func(name string) string { return strconv.Quote(filepath.Join(top, name)) }
		want := regexp.MustCompile(`<([^>]*)>`).ReplaceAllStringFunc(c.hint, func(m string) string { return in(m[1 : len(m)-1]) })
		if got := fault.HintOf(err); got != want {
			t.Errorf("%s: hint %q, want %q", c.name, got, want)
		}
	}
}
