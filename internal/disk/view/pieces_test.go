package view

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/disk/mkext4"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// holed returns an archive that contains one file with holes. The file's content in the archive
// consists of numbers followed by data.
func holed(t testing.TB, size string, data string, numbers ...uint64) []byte {
	t.Helper()
	var content []byte
	for _, n := range numbers {
		content = binary.LittleEndian.AppendUint64(content, n)
	}
	return holedOf(t, size, string(content)+data)
}

func holedOf(t testing.TB, size, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	h := &tar.Header{Typeflag: tar.TypeReg, Name: "holes", Mode: 0o600, Size: int64(len(content)), ModTime: when, Format: tar.FormatPAX, PAXRecords: map[string]string{sizeRecord: size}}
	if err := w.WriteHeader(h); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func openHoles(t testing.TB, archive []byte) *fileWithHoles {
	t.Helper()
	tree, err := Over(t.Context(), root(t), bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	f, err := tree.Open("holes")
	if err != nil {
		t.Fatal(err)
	}
	return f.(*fileWithHoles)
}

// TestFilesWithHoles checks random files with holes. It uses different read patterns.
func TestFilesWithHoles(t *testing.T) {
	random := testenv.Rand(t, 1)
	for _, count := range []int{0, 1, 2, pageSize - 1, pageSize, pageSize + 1, 5*pageSize + 3} {
		var want, data []byte
		numbers := []uint64{uint64(count)}
		for i := range count {
			if i > 0 || random.IntN(2) == 0 {
				want = append(want, make([]byte, random.IntN(4)*random.IntN(3000))...) // some files begin with data
			}
			piece := bytes.Repeat([]byte{byte('a' + i%26)}, 1+random.IntN(5000))
			numbers = append(numbers, uint64(len(want)), uint64(len(piece)))
			want, data = append(want, piece...), append(data, piece...)
		}
		want = append(want, make([]byte, 1+random.IntN(9000))...)
		f := openHoles(t, holed(t, strconv.Itoa(len(want)), string(data), numbers...))
		if info, err := f.Stat(); err != nil || info.Size() != int64(len(want)) {
			t.Errorf("%d pieces: %v, %v", count, info, err)
		}
		if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d pieces: %d bytes, %v", count, len(got), err)
		}
		for range 300 {
			at := random.IntN(len(want) + 2)
			b := bytes.Repeat([]byte{0xff}, random.IntN(10_000))
			n, err := f.ReadAt(b, int64(at))
			rest := want[min(at, len(want)):]
			if n != min(len(b), len(rest)) || !bytes.Equal(b[:n], rest[:n]) || err != nil && err != io.EOF || n < len(b) && err != io.EOF {
				t.Fatalf("%d pieces: %d bytes from %d on are %d, %v", count, len(b), at, n, err)
			}
		}
		// Bytes outside of data ranges are zeros, and the ranges equal those in the archive.
		rebuilt, at := make([]byte, len(want)), int64(0)
		for i := 1; ; i += 2 {
			start, end, err := f.NextData(at)
			if err != nil {
				t.Fatal(err)
			}
			if start == end {
				if i != len(numbers) {
					t.Errorf("%d pieces end at %d", count, at)
				}
				break
			}
			if uint64(start) != numbers[i] || uint64(end-start) != numbers[i+1] {
				t.Fatalf("%d pieces: from %d to %d, not %d of %d", count, start, end, numbers[i+1], numbers[i])
			}
			copy(rebuilt[start:end], want[start:end])
			at = end
		}
		if !bytes.Equal(rebuilt, want) {
			t.Errorf("%d pieces: got data outside of the pieces", count)
		}
	}
}

func TestHugeFilesWithHoles(t *testing.T) {
	f := openHoles(t, holed(t, "9223372036854775807", "startend", 2, 0, 5, 1<<63-4, 3))
	for at, want := range map[int64]string{0: "start\x00\x00", 1<<63 - 8: "\x00\x00\x00\x00end", 1 << 50: "\x00\x00\x00\x00\x00\x00\x00"} {
		b := []byte("xxxxxxx")
		if _, err := f.ReadAt(b, at); err != nil || string(b) != want {
			t.Errorf("%d: %q, %v", at, b, err)
		}
	}
	if start, end, err := f.NextData(5); start != 1<<63-4 || end != 1<<63-1 || err != nil {
		t.Errorf("data from %d to %d, %v", start, end, err)
	}
	if _, err := f.ReadAt(make([]byte, 1), -1); err == nil {
		t.Error("got data before the start")
	}
	var _ mkext4.Sparse = f
}

// hostileHoles returns archives that contain invalid pieces.
func hostileHoles(t testing.TB) map[string][]byte {
	return map[string][]byte{
		"no size":                      holed(t, "many", "", 0),
		"a negative size":              holed(t, "-1", "", 0),
		"too large a size":             holed(t, "9223372036854775808", "", 0),
		"no pieces":                    holed(t, "100", ""),
		"half a number":                holedOf(t, "100", "\x01\x00\x00\x00"),
		"too many pieces":              holed(t, "100", "data", 1<<62, 0, 4),
		"one too many":                 holed(t, "100", "data", 2, 0, 4),
		"pieces that wrap":             holed(t, "100", "data", 1<<60, 0, 4),
		"the largest number of pieces": holed(t, "100", "data", 1<<64-1, 0, 4),
		"pieces that are cut":          holed(t, "100", "", 2, 0, 2),
		"data that are cut":            holed(t, "100", "data", 1, 0, 50),
		"more data":                    holed(t, "100", "data", 1, 0, 3),
		"data and no pieces":           holed(t, "100", "data", 0),
		"behind the end":               holed(t, "100", "data", 1, 99, 4),
		"at the end":                   holed(t, "100", "data", 1, 101, 4),
		"before the start":             holed(t, "100", "data", 1, 1<<64-4, 4),
		"a negative length":            holed(t, "100", "data", 1, 4, 1<<64-4),
		"around":                       holed(t, "9223372036854775807", "data", 1, 1<<63-4, 1<<63-1),
		"nothing":                      holed(t, "100", "data", 2, 4, 0, 4, 4),
		"one over another":             holed(t, "100", "data", 2, 8, 2, 9, 2),
		"the same twice":               holed(t, "100", "data", 2, 8, 2, 8, 2),
		"no order":                     holed(t, "100", "data", 2, 8, 2, 4, 2),
	}
}

func TestHostilePieces(t *testing.T) {
	for name, archive := range hostileHoles(t) {
		if _, err := Over(t.Context(), root(t), bytes.NewReader(archive), int64(len(archive))); fault.KindOf(err) != fault.Corrupt || !strings.Contains(err.Error(), "holes") {
			t.Errorf("%s: kind %q: %v", name, fault.KindOf(err), err)
		}
	}
	whole := holed(t, "100", strings.Repeat("d", 3000), 1, 0, 3000)
	if _, err := Over(t.Context(), root(t), bytes.NewReader(whole[:2048]), 2048); fault.KindOf(err) != fault.Corrupt {
		t.Errorf("an archive that ends: %v", err)
	}
}

// TestHolesInOtherFormats checks sparse files in the formats that tar itself defines.
func TestHolesInOtherFormats(t *testing.T) {
	for _, format := range []string{"pax", "gnu"} {
		dir := t.TempDir()
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "holes"), []byte("data"), 0o600), os.Truncate(filepath.Join(dir, "holes"), 8192)); err != nil {
			t.Fatal(err)
		}
		tool(t, "tar", "-C", dir, "--format="+format, "-Scf", filepath.Join(dir, "archive"), "holes")
		b, err := os.ReadFile(filepath.Join(dir, "archive"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Over(t.Context(), root(t), bytes.NewReader(b), int64(len(b))); fault.KindOf(err) != fault.Corrupt {
			t.Errorf("%s: %v", format, err)
		}
	}
}

func TestPiecesAreBounded(t *testing.T) {
	content := make([]byte, 8+3*pieceSize+3)
	content[0] = 3
	for i := range 3 {
		content[8+i*pieceSize], content[8+i*pieceSize+8] = byte(2*i), 1
	}
	for most, kind := range map[int64]fault.Kind{3: "", 2: fault.Exhausted, 0: fault.Exhausted} {
		if _, err := readPieces(bytes.NewReader(content), 0, int64(len(content)), 10, most); fault.KindOf(err) != kind {
			t.Errorf("%d: %v", most, err)
		}
	}
}

// TestChangingArchive truncates and overwrites an archive while it is in use. The changes must
// cause only errors.
func TestChangingArchive(t *testing.T) {
	archive := holed(t, "1000", "data", 1, 500, 4)
	f := openHoles(t, archive)
	at := bytes.Index(archive, []byte("data"))
	for i := at - 16; i < at; i++ {
		for _, b := range []byte{0, 0x7f, 0x80, 0xff} {
			was := archive[i]
			archive[i] = b
			f.ReadAt(make([]byte, 1000), 0)
			f.NextData(0)
			archive[i] = was
		}
	}
	if got, err := io.ReadAll(io.NewSectionReader(f, 498, 8)); string(got) != "\x00\x00data\x00\x00" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// FuzzPieces compares the results of find with a search through all pieces.
func FuzzPieces(f *testing.F) {
	numbers := func(numbers ...uint64) (b []byte) {
		for _, n := range numbers {
			b = binary.LittleEndian.AppendUint64(b, n)
		}
		return b
	}
	f.Add("100", append(numbers(2, 8, 2, 10, 2), "data"...))
	f.Add("100", append(numbers(2, 0, 1, 97, 3), "data"...))
	f.Add("9223372036854775807", append(numbers(1, 1<<63-5, 4), "data"...))
	f.Add("100", append(numbers(1<<62, 0, 4), "data"...))
	f.Add("100", append(numbers(1, 4, 1<<64-4), "data"...))
	f.Add("5", numbers(0))
	lower := root(f)
	f.Fuzz(func(t *testing.T, size string, content []byte) {
		if len(size) > 100 || len(content) > 1<<20 {
			t.Skip("the input is too large")
		}
		b := holedOf(t, size, string(content))
		tree, err := Over(t.Context(), lower, bytes.NewReader(b), int64(len(b)))
		if err != nil {
			if k := fault.KindOf(err); k != fault.Corrupt {
				t.Fatalf("kind %q: %v", k, err)
			}
			return
		}
		if err := readSome(tree, "holes"); err != nil {
			t.Fatal(err)
		}
		file, err := tree.Open("holes")
		if err != nil {
			t.Fatal(err)
		}
		info, err := file.Stat()
		if err != nil || info.Size() > 1<<20 {
			return
		}
		want := make([]byte, info.Size())
		n := binary.LittleEndian.Uint64(content)
		data := content[8+n*pieceSize:]
		for i := range n {
			piece := content[8+i*pieceSize:]
			data = data[copy(want[binary.LittleEndian.Uint64(piece):], data[:binary.LittleEndian.Uint64(piece[8:])]):]
		}
		if got, err := io.ReadAll(file); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%q, %v, not %q", got, err, want)
		}
	})
}
