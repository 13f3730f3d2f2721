package qcow2

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

const mib = 1 << 20

func qemu(t testing.TB, tool string, args ...string) string {
	t.Helper()
	testenv.NeedsTool(t, tool)
	out, err := exec.Command(tool, args...).CombinedOutput()
	if err != nil || tool == "qemu-io" && bytes.Contains(out, []byte("failed")) {
		t.Fatalf("%s %q: %v\n%s", tool, args, err, out)
	}
	return string(out)
}

// created creates a layer with Create.
func created(t testing.TB, path string, size int64) string {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Create(f, size), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// chain returns QEMU's description of a disk that consists of layers, starting with the raw image.
func chain(raw string, layers ...string) string {
	node := map[string]any{"driver": "raw", "file": map[string]any{"driver": "file", "filename": raw}}
	if raw == "" {
		node = nil
	}
	for _, path := range layers {
		above := map[string]any{"driver": "qcow2", "file": map[string]any{"driver": "file", "filename": path}}
		if node != nil {
			above["backing"] = node
		}
		node = above
	}
	text, _ := json.Marshal(node)
	return "json:" + string(text)
}

func TestQEMUReadsCreatedLayers(t *testing.T) {
	for _, size := range []int64{512, mib, 512 * mib, 512*mib + 512, 16 << 30, MaxSize} {
		path := created(t, filepath.Join(t.TempDir(), "layer"), size)
		if said := qemu(t, "qemu-img", "check", path); !strings.Contains(said, "No errors were found") {
			t.Errorf("%d: %s", size, said)
		}
		var info struct {
			Format  string `json:"format"`
			Size    int64  `json:"virtual-size"`
			Cluster int64  `json:"cluster-size"`
			Backing string `json:"backing-filename"`
			Data    struct {
				Data struct {
					Compat   string `json:"compat"`
					Refcount int    `json:"refcount-bits"`
					Corrupt  bool   `json:"corrupt"`
				} `json:"data"`
			} `json:"format-specific"`
		}
		if err := json.Unmarshal([]byte(qemu(t, "qemu-img", "info", "--output=json", path)), &info); err != nil {
			t.Fatal(err)
		}
		if info.Format != "qcow2" || info.Size != size || info.Cluster != 65536 || info.Backing != "" || info.Data.Data.Compat != "1.1" || info.Data.Data.Refcount != 16 || info.Data.Data.Corrupt {
			t.Errorf("%d: %+v", size, info)
		}
		last := fmt.Sprintf("write -P 7 %d 512", size-512)
		qemu(t, "qemu-io", "-f", "qcow2", "-c", "write -P 5 0 512", "-c", last, "-c", "flush", path)
		if said := qemu(t, "qemu-img", "check", path); !strings.Contains(said, "No errors were found") {
			t.Errorf("%d, written to: %s", size, said)
		}
		d, err := OpenFiles("", path)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		b := make([]byte, 512)
		if _, err := d.ReadAt(b, size-512); err != nil || b[0] != 7 || b[511] != 7 {
			t.Errorf("%d: %v, %v", size, b[:4], err)
		}
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "layer"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int64{-512, 0, 1, 513, MaxSize + 512} {
		if Create(f, size) == nil {
			t.Errorf("a layer of %d bytes", size)
		}
	}
}

func TestEmptyLayerIsSmall(t *testing.T) {
	path := created(t, filepath.Join(t.TempDir(), "layer"), 16<<30)
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Size != 4*cluster || st.Blocks*512 > 32<<10 {
		t.Errorf("%d bytes, %d on the disk, %v", st.Size, st.Blocks*512, err)
	}
}

// written creates a raw image and layers with different options. Its writes create every kind of
// table entry in each layer.
func written(t testing.TB, seed uint64, size int64, layers int, options ...string) (raw string, paths []string) {
	t.Helper()
	dir, random := t.TempDir(), rand.New(rand.NewPCG(seed, 1))
	if seed%3 != 0 {
		raw = filepath.Join(dir, "raw")
		f, err := os.Create(raw)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			b := bytes.Repeat([]byte{byte(1 + random.IntN(255))}, 1+random.IntN(200_000))
			if _, err := f.WriteAt(b, random.Int64N(size-int64(len(b)))); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(f.Truncate(size-int64(seed%2)*3*mib), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range layers {
		path := filepath.Join(dir, fmt.Sprintf("layer-%d", i))
		if i%2 == 0 && len(options) == 0 {
			created(t, path, size)
		} else {
			qemu(t, "qemu-img", append(append([]string{"create", "-q", "-f", "qcow2"}, options...), path, fmt.Sprint(size))...)
		}
		paths = append(paths, path)
		args := []string{"-d", "unmap"}
		for range 15 {
			length := int64(1+random.IntN(800)) * 512
			at := random.Int64N((size-length)/512) * 512
			kind := []string{fmt.Sprintf("write -P %d", 1+random.IntN(255)), fmt.Sprintf("write -P %d", 1+random.IntN(255)), "write -z", "write -z -u", "discard"}[random.IntN(5)]
			args = append(args, "-c", fmt.Sprintf("%s %d %d", kind, at, length))
		}
		qemu(t, "qemu-io", append(args, chain(raw, paths...))...)
	}
	return raw, paths
}

func TestReadsLayersOfQEMU(t *testing.T) {
	for seed, options := range [][]string{nil, nil, nil, nil, {"-o", "cluster_size=512"}, {"-o", "cluster_size=2M"}, {"-o", "lazy_refcounts=on"}} {
		t.Run(fmt.Sprintf("%d%s", seed, strings.Join(options, "")), func(t *testing.T) {
			t.Parallel()
			raw, layers := written(t, uint64(seed), 24*mib, 1+seed%4, options...)
			flat := filepath.Join(t.TempDir(), "flat")
			qemu(t, "qemu-img", "convert", "-O", "raw", chain(raw, layers...), flat)
			want, err := os.ReadFile(flat)
			if err != nil {
				t.Fatal(err)
			}
			d, err := OpenFiles(raw, layers...)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			same(t, d, want, uint64(seed))
		})
	}
}

// same checks the content of a disk. It reads the whole disk with one call, then in concurrent
// pieces, and then by its extents.
func same(t *testing.T, d *Disk, want []byte, seed uint64) {
	t.Helper()
	if d.Size() != int64(len(want)) {
		t.Fatalf("%d bytes, not %d", d.Size(), len(want))
	}
	got, err := io.ReadAll(io.NewSectionReader(d, 0, d.Size()))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("read in whole it differs, %v", err)
	}
	var readers sync.WaitGroup
	for reader := range uint64(4) {
		readers.Go(func() {
			random := rand.New(rand.NewPCG(seed, reader))
			for range 100 {
				at, b := random.IntN(len(want)), make([]byte, 1+random.IntN(300_000))
				n, err := d.ReadAt(b, int64(at))
				if rest := want[at:min(len(want), at+len(b))]; !bytes.Equal(b[:n], rest) || (err == io.EOF) != (n < len(b)) || err != nil && err != io.EOF {
					t.Errorf("%d of %d bytes at %d: %v", n, len(b), at, err)
					return
				}
			}
		})
	}
	readers.Wait()
	sparse, last := make([]byte, len(want)), int64(-1)
	err = d.Extents(func(offset, length int64) error {
		if offset <= last || length <= 0 {
			t.Errorf("%d bytes at %d, after %d", length, offset, last)
		}
		last = offset + length
		_, err := d.ReadAt(sparse[offset:last], offset)
		return err
	})
	if err != nil || !bytes.Equal(sparse, want) {
		t.Errorf("the extents leave something out, %v", err)
	}
}

func TestExtentsOmitHoles(t *testing.T) {
	dir := t.TempDir()
	raw := filepath.Join(dir, "raw")
	f, err := os.Create(raw)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(bytes.Repeat([]byte{1}, mib), 3<<30)
	if err := errors.Join(err, f.Truncate(16<<30), f.Close()); err != nil {
		t.Fatal(err)
	}
	layer := created(t, filepath.Join(dir, "layer"), 16<<30)
	qemu(t, "qemu-io", "-c", "write -P 2 5G 64k", "-c", "write -z 3G 128k", "-c", "write -P 3 5242944k 64k", chain(raw, layer))
	d, err := OpenFiles(raw, layer)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var got []int64
	if err := d.Extents(func(offset, length int64) error { got = append(got, offset, length); return nil }); err != nil {
		t.Fatal(err)
	}
	if want := []int64{3<<30 + 128<<10, mib - 128<<10, 5 << 30, 128 << 10}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, not %v", got, want)
	}
	stop := errors.New("enough")
	if err := d.Extents(func(int64, int64) error { return stop }); err != stop {
		t.Errorf("got %v", err)
	}
}

func TestTablesAreBounded(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "tables"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(64 * mib); err != nil {
		t.Fatal(err)
	}
	var kept tables
	l := &layer{file: file}
	for at := int64(0); at < 64*mib; at += pieceSize / 2 {
		if _, err := kept.number(l, at); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(kept.pieces); n > maxPieces || n < maxPieces/2 {
		t.Errorf("%d pieces", n)
	}
}
