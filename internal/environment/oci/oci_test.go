package oci

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

	"github.com/pyro-mcp/pyro/internal/fault"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// layer builds a tar archive. An entry has one of the following forms:
//   - "name" or "name=content" for a file.
//   - "name/" for a directory.
//   - "name -> target" for a symbolic link.
//   - "name => target" for a hard link.
func layer(t testing.TB, entries ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := tar.Header{Typeflag: tar.TypeReg, Name: e, Mode: 0o644}
		content := ""
		if name, target, ok := strings.Cut(e, " -> "); ok {
			h = tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
		} else if name, target, ok := strings.Cut(e, " => "); ok {
			h = tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target}
		} else if name, text, ok := strings.Cut(e, "="); ok {
			h.Name, h.Size, content = name, int64(len(text)), text
		} else if strings.HasSuffix(e, "/") {
			h.Typeflag, h.Mode = tar.TypeDir, 0o755
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, content)
	}
	w.Close()
	return b.Bytes()
}

func written(t testing.TB, layers ...[]byte) []string {
	var paths []string
	for i, l := range layers {
		path := filepath.Join(t.TempDir(), fmt.Sprint(i))
		if err := os.WriteFile(path, l, 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// contents lists the entries of an archive in the notation that layer accepts, sorted.
func contents(t testing.TB, archive io.Reader) (all []string) {
	r := tar.NewReader(archive)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			slices.Sort(all)
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		switch h.Typeflag {
		case tar.TypeSymlink:
			all = append(all, h.Name+" -> "+h.Linkname)
		case tar.TypeLink:
			all = append(all, h.Name+" => "+h.Linkname)
		case tar.TypeReg:
			all = append(all, h.Name+"="+string(content))
		case tar.TypeDir:
			all = append(all, strings.TrimSuffix(h.Name, "/")+"/")
		default:
			all = append(all, h.Name+" "+string(h.Typeflag))
		}
	}
}

func TestFlatten(t *testing.T) {
	for name, c := range map[string]struct {
		layers [][]string
		want   []string
	}{
		"one layer":                      {[][]string{{"a/", "a/b=1", "c -> a/b"}}, []string{"a/", "a/b=1", "c -> a/b"}},
		"upper replaces":                 {[][]string{{"a=1"}, {"a=2"}}, []string{"a=2"}},
		"whiteout":                       {[][]string{{"d/", "d/a=1", "d/b=1"}, {"d/.wh.a"}}, []string{"d/", "d/b=1"}},
		"whiteout of a folder":           {[][]string{{"d/", "d/a=1", "e=1"}, {".wh.d"}}, []string{"e=1"}},
		"whiteout, then new":             {[][]string{{"d/", "d/a=1"}, {".wh.d", "d/", "d/b=2"}}, []string{"d/", "d/b=2"}},
		"new, then whiteout":             {[][]string{{"d/", "d/a=1"}, {"d/", "d/b=2", ".wh.d"}}, []string{"d/", "d/b=2"}},
		"whiteout of nothing":            {[][]string{{"a=1"}, {".wh.b"}}, []string{"a=1"}},
		"opaque":                         {[][]string{{"d/", "d/a=1", "d/e/", "d/e/f=1"}, {"d/.wh..wh..opq", "d/b=2"}}, []string{"d/b=2"}},
		"opaque comes last":              {[][]string{{"d/", "d/a=1"}, {"d/", "d/b=2", "d/.wh..wh..opq"}}, []string{"d/", "d/b=2"}},
		"file becomes folder":            {[][]string{{"a=1"}, {"a/", "a/b=2"}}, []string{"a/", "a/b=2"}},
		"folder becomes file":            {[][]string{{"a/", "a/b=1"}, {"a=2"}}, []string{"a=2"}},
		"link becomes folder":            {[][]string{{"l -> a", "a/"}, {"l/", "l/x=1"}}, []string{"a/", "l/", "l/x=1"}},
		"through a link":                 {[][]string{{"usr/", "usr/lib/", "lib -> usr/lib"}, {"lib/x=1"}}, []string{"lib -> usr/lib", "usr/", "usr/lib/", "usr/lib/x=1"}},
		"through a link to the root":     {[][]string{{"a/", "a/up -> ../../../b"}, {"a/up/x=1"}}, []string{"a/", "a/up -> ../../../b", "b/x=1"}},
		"hard links":                     {[][]string{{"a=1", "b => a", "c => b"}}, []string{"a=1", "b => a", "c => a"}},
		"hard link whose target is gone": {[][]string{{"a=1", "b => a", "c => a"}, {".wh.a"}}, []string{"b=1", "c => b"}},
		"hard link whose target is new":  {[][]string{{"a=1", "b => a"}, {"a=2"}}, []string{"a=2", "b=1"}},
		"hard link to a lower layer":     {[][]string{{"z=1"}, {"a => z"}}, []string{"a=1", "z => a"}},
		"hard link to a symbolic link":   {[][]string{{"s -> x", "t => s"}}, []string{"s -> x", "t -> x"}},
		"the same name twice":            {[][]string{{"a=1", "a=2"}}, []string{"a=2"}},
		"odd names":                      {[][]string{{"./", "./a=1", "/b=2", "c//d=3"}}, []string{"./", "a=1", "b=2", "c/d=3"}},
		"a layer that changes a folder":  {[][]string{{"d/", "d/a=1"}, {"d/"}}, []string{"d/", "d/a=1"}},
		"nothing":                        {[][]string{{}}, nil},
		"no layers":                      {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var layers [][]byte
			for _, l := range c.layers {
				layers = append(layers, layer(t, l...))
			}
			paths := written(t, layers...)
			flat, err := flatten(t.Context(), paths)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := (&Image{layers: paths, flat: flat}).WriteTar(t.Context(), &out); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, contents(t, &out)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHostileLayers(t *testing.T) {
	defer func(bytes int64, text int) { maxBytes, maxText = bytes, text }(maxBytes, maxText)
	maxBytes, maxText = 64<<20, 16<<20
	var huge bytes.Buffer
	tar.NewWriter(&huge).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "huge", Size: MaxBytes + 1})
	deep := strings.Repeat("d/", maxDepth+1) + "x"
	for name, c := range map[string]struct {
		layer []byte
		kind  fault.Kind
	}{
		"climbing":                    {layer(t, "../x=1"), fault.Corrupt},
		"climbing inside":             {layer(t, "a/../../x=1"), fault.Corrupt},
		"links in a circle":           {layer(t, "a -> b", "b -> a", "a/x=1"), fault.Corrupt},
		"hard link to a missing file": {layer(t, "a => b"), fault.Corrupt},
		"hard link to a directory":    {layer(t, "d/", "a => d"), fault.Corrupt},
		"file as folder":              {layer(t, "a=1", "a/b=1"), fault.Corrupt},
		"too deep":                    {layer(t, deep+"=1"), fault.Corrupt},
		"huge claim":                  {huge.Bytes(), fault.Exhausted},
		"gzip bomb":                   {gzipBomb(t, maxBytes+1), fault.Exhausted},
		"broken gzip":                 {[]byte("\x1f\x8b rubbish"), fault.Corrupt},
		"gzip of rubbish":             {gzipped(t, bytes.Repeat([]byte("rubbish "), 200)), fault.Corrupt},
		"cut gzip":                    {gzipped(t, layer(t, "a="+strings.Repeat("x", 5000)))[:60], fault.Corrupt},
		"rubbish":                     {bytes.Repeat([]byte("rubbish "), 200), fault.Corrupt},
		"cut":                         {layer(t, "a="+strings.Repeat("x", 5000))[:3000], fault.Corrupt},
		"broken zstd":                 {[]byte("\x28\xb5\x2f\xfd rubbish"), fault.Corrupt},
		"many folders in one name":    {manyFolders(t), fault.Exhausted},
		"a long name":                 {layer(t, strings.Repeat("n", maxName+1)+"=1"), fault.Corrupt},
		"a folder with a long name":   {layer(t, strings.Repeat("n", maxName+1)+"/x=1"), fault.Corrupt},
		"a long path":                 {layer(t, strings.Repeat("/"+strings.Repeat("n", 200), 21)+"=1"), fault.Corrupt},
		"a long target":               {layer(t, "a -> "+strings.Repeat("n", maxPath)), fault.Corrupt},
		"a long target of a link":     {layer(t, "a=1", "b => "+strings.Repeat("./", maxPath/2)+"a"), fault.Corrupt},
		"a long path through a link":  {layer(t, append(deepFolders(25), "l/x=1")...), fault.Corrupt},
		"a lot of text":               {longLinks(t), fault.Exhausted},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := flatten(t.Context(), written(t, c.layer))
			if fault.KindOf(err) != c.kind {
				t.Errorf("kind %q, want %q: %v", fault.KindOf(err), c.kind, err)
			}
		})
	}
}

// deepFolders returns a chain of folders with names of 200 bytes, and a link l to its bottom.
func deepFolders(n int) []string {
	name := strings.Repeat("d", 200)
	all := []string{name + "/", "l0 -> " + name}
	for i := range n - 1 {
		all = append(all, fmt.Sprintf("l%d/%s/", i, name), fmt.Sprintf("l%d -> l%d/%s", i+1, i, name))
	}
	return append(all, fmt.Sprintf("l -> l%d", n-1))
}

// longLinks returns an archive with many long link targets.
func longLinks(t *testing.T) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := range maxText/maxPath + 2 {
		h := &tar.Header{Typeflag: tar.TypeSymlink, Name: fmt.Sprint(i), Linkname: strings.Repeat("t", maxPath-1)}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	return b.Bytes()
}

// TestFlattenMemory checks that many files in a deep folder need no memory for their paths.
func TestFlattenMemory(t *testing.T) {
	const files = 2000
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	name := strings.TrimSuffix(strings.Repeat(strings.Repeat("d", 199)+"/", 20), "/")
	long := strings.Repeat("./", 1000)
	for _, h := range []tar.Header{{Typeflag: tar.TypeDir, Name: name + "/"}, {Typeflag: tar.TypeSymlink, Name: "l", Linkname: name}} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	for i := range files { // the names in the archive are long too
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprint(long, "l/", i)}); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	paths := written(t, b.Bytes())
	b = bytes.Buffer{}
	flat := (*flattened)(nil)
	before := heap()
	flat, err := flatten(t.Context(), paths)
	if err != nil {
		t.Fatal(err)
	}
	if used := heap() - before; used > files*600 {
		t.Errorf("%d files need %d MiB", files, used>>20)
	}
	seen := 0
	if err := (&Image{layers: paths, flat: flat}).WriteTar(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(&b); ; seen++ {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg && !strings.HasPrefix(h.Name, name+"/") {
			t.Fatalf("name %q", h.Name)
		}
	}
	if seen != files+2 {
		t.Errorf("wrote %d entries", seen)
	}
}

// heap returns the size of the reachable objects in bytes.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// manyFolders returns an archive that has few entries but a huge number of directories.
func manyFolders(t *testing.T) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := range MaxEntries/1000 + 10 {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprint(i) + strings.Repeat("/d", 1000)}); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	return b.Bytes()
}

func gzipped(t testing.TB, content []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(content)
	w.Close()
	return b.Bytes()
}

// gzipBomb returns a layer that unpacks to size bytes of zeros, about a thousand times its
// compressed size.
func gzipBomb(t *testing.T, size int64) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	// Each of the two files alone is within the limits. Together they are not.
	w := tar.NewWriter(z)
	for _, name := range []string{"a", "b"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size/2 + 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(w, zeros{}, size/2+1); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	z.Close()
	return b.Bytes()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestZstdAndPlainLayers(t *testing.T) {
	plain := layer(t, "a=1")
	encoder, _ := zstd.NewWriter(nil)
	for _, l := range [][]byte{plain, gzipped(t, plain), encoder.EncodeAll(plain, nil)} {
		paths := written(t, l)
		flat, err := flatten(t.Context(), paths)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := (&Image{layers: paths, flat: flat}).WriteTar(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		if got := contents(t, &out); !slices.Equal(got, []string{"a=1"}) {
			t.Errorf("got %v", got)
		}
	}
}

func FuzzFlatten(f *testing.F) {
	f.Add(layer(f, "d/", "d/a=1", "l -> d", "b => d/a"), layer(f, ".wh.d", "l/x=1", "d/.wh..wh..opq"))
	f.Fuzz(func(t *testing.T, lower, upper []byte) {
		paths := written(t, lower, upper)
		flat, err := flatten(t.Context(), paths)
		if err != nil {
			if k := fault.KindOf(err); k != fault.Corrupt && k != fault.Exhausted {
				t.Fatalf("kind %q: %v", k, err)
			}
			return
		}
		var out bytes.Buffer
		if flat.bytes > 16<<20 {
			return // The files are sparse.
		}
		if err := (&Image{layers: paths, flat: flat}).WriteTar(t.Context(), &out); err != nil {
			if k := fault.KindOf(err); k != fault.Corrupt {
				t.Fatalf("kind %q: %v", k, err)
			}
			return
		}
		seen := map[string]bool{}
		for r := tar.NewReader(&out); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimSuffix(h.Name, "/")
			if seen[name] || strings.HasPrefix(name, "/") || slices.Contains(strings.Split(name, "/"), "..") {
				t.Fatalf("name %q", h.Name)
			}
			seen[name] = true
			if h.Typeflag == tar.TypeLink && !seen[h.Linkname] {
				t.Fatalf("hard link %q before its target %q", h.Name, h.Linkname)
			}
		}
	})
}
