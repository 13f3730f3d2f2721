package listing

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// sample is a list with all kinds of entries.
var sample = []Entry{
	{"", Attributes{Folder, 0o755, 4096, 1700000000123456789, 1700000000123456789, 2, 0, 0, 4}, ""},
	{"a", Attributes{Folder, 0o1777, 4096, -1, 5, math.MaxUint64, math.MaxUint32, math.MaxUint32, math.MaxUint32}, ""},
	{"a/b", Attributes{File, 0o6755, math.MaxInt64, math.MaxInt64, math.MinInt64, 0, 1000, 1000, 1}, ""},
	{"a/b-", Attributes{Kind: Other}, ""},
	{"a/b0", Attributes{Kind: BlockDevice}, ""},
	{"a/c", Attributes{Kind: Folder}, ""},
	{"a/c/" + strings.Repeat("x", 255), Attributes{Kind: Folder}, ""},
	{"a-", Attributes{Link, 0o777, 4096, 1, 2, 3, 0, 0, 1}, strings.Repeat("t", MaxPath)},
	{"a.b\n", Attributes{Kind: File}, ""},
	{"\xff\xfe", Attributes{Kind: Link}, "/\x01"},
}

func written(t testing.TB, entries []Entry, end bool) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, e := range entries {
		if err := w.Add([]byte(e.Path), &e.Attributes, []byte(e.Target)); err != nil {
			t.Fatal(err)
		}
	}
	if !end {
		w.flush()
		return b.Bytes()
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func read(from io.Reader) (entries []Entry, err error) {
	r := NewReader(from)
	for {
		e, err := r.Next()
		if err != nil {
			if _, again := r.Next(); again != err {
				return entries, fmt.Errorf("%w, and then %w", err, again)
			}
			return entries, err
		}
		entries = append(entries, e)
	}
}

func TestRoundTrip(t *testing.T) {
	for n := 1; n <= len(sample); n++ {
		got, err := read(iotest.OneByteReader(bytes.NewReader(written(t, sample[:n], true))))
		if err != io.EOF || !slices.Equal(got, sample[:n]) {
			t.Errorf("%d entries: %v, %+v", n, err, got)
		}
	}
}

// TestManyEntries writes more data than fits into a buffer, with paths of different lengths.
func TestManyEntries(t *testing.T) {
	entries := []Entry{{Attributes: Attributes{Kind: Folder}}}
	for i := range 20_000 {
		entries = append(entries, Entry{Path: fmt.Sprintf("%05d%s", i, strings.Repeat("x", i%200)), Attributes: Attributes{Kind: File, Size: int64(i), Inode: uint64(i * 7)}})
	}
	if got, err := read(bytes.NewReader(written(t, entries, true))); err != io.EOF || !slices.Equal(got, entries) {
		t.Errorf("%d entries, %v", len(got), err)
	}
}

// TestTruncatedListIsDetected checks that reading a truncated list is an error, wherever the
// list was cut.
func TestTruncatedListIsDetected(t *testing.T) {
	whole := written(t, sample, true)
	for n := range whole {
		got, err := read(bytes.NewReader(whole[:n]))
		if err != io.ErrUnexpectedEOF || len(got) > len(sample) || !slices.Equal(got, sample[:len(got)]) {
			t.Fatalf("cut at %d: %d entries, %v", n, len(got), err)
		}
	}
	broken := errors.New("the link broke")
	if _, err := read(io.MultiReader(bytes.NewReader(whole[:40]), iotest.ErrReader(broken))); err != broken {
		t.Errorf("the reader's own error: %v", err)
	}
}

func TestInvalidListIsRejected(t *testing.T) {
	folder, file := Attributes{Kind: Folder}, Attributes{Kind: File}
	root := Entry{Attributes: folder}
	for name, entries := range map[string][]Entry{
		"it begins within":                  {{Path: "a", Attributes: file}},
		"a second root":                     {root, root},
		"a repeated name":                   {root, {Path: "a", Attributes: file}, {Path: "a", Attributes: file}},
		"names are not in order":            {root, {Path: "b", Attributes: file}, {Path: "a", Attributes: file}},
		"below a file":                      {root, {Path: "a", Attributes: file}, {Path: "a/b", Attributes: file}},
		"below a root of no folder":         {{Attributes: file}, {Path: "a", Attributes: file}},
		"below nothing":                     {root, {Path: "a/b", Attributes: file}},
		"below a finished folder":           {root, {Path: "a", Attributes: folder}, {Path: "b", Attributes: folder}, {Path: "a/b", Attributes: file}},
		"below a name with the same prefix": {root, {Path: "ab", Attributes: folder}, {Path: "a/b", Attributes: file}},
		"a name of two":                     {root, {Path: "a", Attributes: folder}, {Path: "a/b/c", Attributes: file}},
		"absolute":                          {root, {Path: "/a", Attributes: file}},
		"up":                                {root, {Path: "..", Attributes: file}},
		"up from below":                     {root, {Path: "a", Attributes: folder}, {Path: "a/..", Attributes: file}},
		"itself":                            {root, {Path: ".", Attributes: file}},
		"no name":                           {root, {Path: "a", Attributes: folder}, {Path: "a/", Attributes: file}},
		"a zero byte":                       {root, {Path: "a\x00", Attributes: file}},
		"too long a path":                   {root, {Path: strings.Repeat("a", MaxPath+1), Attributes: file}},
		"too long a target":                 {root, {Path: "a", Attributes: Attributes{Kind: Link}, Target: strings.Repeat("a", MaxPath+1)}},
		"no target":                         {root, {Path: "a", Attributes: Attributes{Kind: Link}}},
		"a target with a zero byte":         {root, {Path: "a", Attributes: Attributes{Kind: Link}, Target: "b\x00"}},
		"an unknown kind":                   {root, {Path: "a", Attributes: Attributes{Kind: BlockDevice + 1}}},
		"a mode with more":                  {{Attributes: Attributes{Kind: Folder, Mode: 0o10000}}},
		"a negative size":                   {{Attributes: Attributes{Kind: Folder, Size: -1}}},
	} {
		if got, err := read(bytes.NewReader(written(t, entries, true))); !errors.Is(err, ErrBroken) {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
	}
	if _, err := read(bytes.NewReader(append(written(t, sample, false), 0, byte(len(sample)+1)))); !errors.Is(err, ErrBroken) {
		t.Errorf("another count: %v", err)
	}
	if _, err := read(bytes.NewReader([]byte{0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02})); !errors.Is(err, ErrBroken) {
		t.Errorf("a number of 65 bits: %v", err)
	}
}

func TestMarks(t *testing.T) {
	for _, e := range sample {
		if e.Size < 0 {
			continue
		}
		m := e.Mark()
		if got, err := ParseMark(m.String()); err != nil || got != m {
			t.Errorf("%s: %+v, %v", m, got, err)
		}
	}
	for _, s := range []string{"", "1:2:3:4", "1:2:3:4:5:6", "x:2:3:4:5", "1:2:3:4:8", "1:2:3:4:10000", "-1:2:3:4:5", "1:2:3:4:"} {
		if m, err := ParseMark(s); err == nil {
			t.Errorf("%q: %+v", s, m)
		}
	}
}

func TestWriteDoesNotAllocate(t *testing.T) {
	w := NewWriter(io.Discard)
	path, a := []byte("some/path/to/a/file"), &Attributes{Kind: File, Inode: 5}
	w.Add(path, a, nil)
	if n := testing.AllocsPerRun(10_000, func() { w.Add(path, a, nil) }); n > 0 {
		t.Errorf("%f allocations for an entry", n)
	}
}

// FuzzRead checks that every accepted list is a valid tree. If the list is written and read again,
// it must stay equal.
func FuzzRead(f *testing.F) {
	f.Add(written(f, sample, true))
	f.Add(written(f, sample[:3], false))
	f.Add([]byte{2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := read(bytes.NewReader(b))
		folders := map[string]bool{}
		for i, e := range got {
			folder := ""
			if j := strings.LastIndexByte(e.Path, '/'); j >= 0 {
				folder = e.Path[:j]
			}
			if (i == 0) != (e.Path == "") || i > 0 && !folders[folder] || folders[e.Path] || len(e.Path) > MaxPath || e.Size < 0 {
				t.Fatalf("entry %d can't be: %+v", i, e)
			}
			folders[e.Path] = e.Kind == Folder
		}
		if err == io.EOF {
			if again, err := read(bytes.NewReader(written(t, got, true))); err != io.EOF || !slices.Equal(again, got) {
				t.Fatalf("written again it is %+v, %v", again, err)
			}
		}
	})
}
