package layer

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// content is an entry of a hostile archive, together with its data.
type content struct {
	header tar.Header
	holds  []byte
}

// archive writes entries without checks.
func archive(t testing.TB, entries ...content) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		e.header.Size, e.header.Format = int64(len(e.holds)), tar.FormatPAX
		if err := w.WriteHeader(&e.header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(e.holds); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// holes returns the entry of a sparse file. The content begins with the given numbers.
func holes(size string, numbers ...uint64) content {
	var b []byte
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return content{tar.Header{Typeflag: tar.TypeReg, Name: "etc/holes", PAXRecords: map[string]string{sizeRecord: size}}, append(b, "data"...)}
}

func hostile() map[string]content {
	named := func(kind byte, name, link string) content {
		return content{header: tar.Header{Typeflag: kind, Name: name, Linkname: link}}
	}
	return map[string]content{
		"up":                         named(tar.TypeReg, "../up", ""),
		"up and down":                named(tar.TypeReg, "etc/../../up", ""),
		"absolute":                   named(tar.TypeReg, "/etc/passwd", ""),
		"dots":                       named(tar.TypeReg, "./etc/passwd", ""),
		"empty part":                 named(tar.TypeReg, "etc//passwd", ""),
		"the root as a file":         named(tar.TypeReg, ".", ""),
		"the root as a link":         named(tar.TypeSymlink, "./", "etc"),
		"no root":                    named(tar.TypeChar, ".", ""),
		"a folder above":             named(tar.TypeDir, "../", ""),
		"a link to above":            named(tar.TypeLink, "etc/link", "../../etc/passwd"),
		"a link to an absolute path": named(tar.TypeLink, "etc/link", "/etc/passwd"),
		"a link to the root":         named(tar.TypeLink, "etc/link", "."),
		"another kind":               named(tar.TypeCont, "etc/kind", ""),
		"no size":                    holes("many", 0),
		"a negative size":            holes("-1", 0),
		"no pieces":                  holes("100"),
		"too many pieces":            holes("100", 1<<62),
		"pieces that are cut":        holes("100", 2, 0, 2),
		"more than the data":         holes("100", 1, 0, 50),
		"behind the end":             holes("100", 1, 99, 4),
		"before the start":           holes("100", 1, 1<<64-4, 4),
		"a negative length":          holes("100", 1, 4, 1<<64-4),
		"overlapping pieces":         holes("100", 2, 8, 2, 9, 2),
	}
}

// TestHostileLayers checks that Apply fails and changes nothing outside the tree.
func TestHostileLayers(t *testing.T) {
	for name, c := range hostile() {
		err := Apply(environment(), bytes.NewReader(archive(t, c)))
		if err == nil || errors.Is(err, errOut) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDamagedDescriptions checks that Write fails if the description is damaged.
func TestDamagedDescriptions(t *testing.T) {
	file := func(size uint64, s ...segment) entry {
		return entry{header: tar.Header{Typeflag: tar.TypeReg, Name: "./file"}, size: size, segments: s}
	}
	long := entry{header: tar.Header{Typeflag: tar.TypeDir, Name: "./" + strings.Repeat("long/", maxName/5+1)}}
	for name, e := range map[string]entry{
		"no size":            file(1 << 63),
		"unordered segments": file(4*page, segment{page, 2 * page, 0}, segment{0, page, 0}),
		"nothing":            file(4*page, segment{2 * page, page, 0}),
		"beyond the data":    file(page, segment{0, page, 1 << 40}),
		"a long name":        long,
	} {
		err := Write(io.Discard, source(describe(t, []entry{e})))
		if err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

func source(description []byte) Source {
	return Source{bytes.NewReader(description), bytes.NewReader(make([]byte, 16*page)), func(string) (time.Time, map[string]string, error) {
		return changed, nil, nil
	}}
}

// FuzzApply checks that Apply uses only valid names. The archive is arbitrary.
func FuzzApply(f *testing.F) {
	f.Add(written(f, everything))
	for _, c := range hostile() {
		f.Add(archive(f, c))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<20 {
			t.Skip("the input is too large")
		}
		if err := Apply(bounded{environment()}, bytes.NewReader(b)); errors.Is(err, errOut) {
			t.Error(err)
		}
	})
}

// bounded is a tree in memory that limits the size of its files.
type bounded struct{ memory }

func (b bounded) File(name string) (File, error) {
	f, err := b.memory.File(name)
	return &boundedFile{File: f}, err
}

type boundedFile struct {
	File
	written int
}

func (f *boundedFile) WriteAt(p []byte, offset int64) (int, error) {
	if f.written += len(p); f.written > 4<<20 {
		return 0, errors.New("no space left")
	}
	return f.File.WriteAt(p, offset)
}

// FuzzWrite checks that either Write fails or Apply uses only valid names. The description is
// arbitrary.
func FuzzWrite(f *testing.F) {
	f.Add(describe(f, everything))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<20 {
			t.Skip("the input is too large")
		}
		var layer bytes.Buffer
		if Write(&layer, source(b)) != nil {
			return
		}
		if err := Apply(bounded{environment()}, &layer); errors.Is(err, errOut) {
			t.Error(err)
		}
	})
}
