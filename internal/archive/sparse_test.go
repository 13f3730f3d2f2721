package archive

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/sparse"
)

// sparseSize is the size of the sparse files of these tests, and fewBytes a limit below it.
const (
	sparseSize = 20<<20 + 100
	fewBytes   = 3 << 20
)

// sparseFile creates a sparse file.
func sparseFile(t testing.TB, path string, end string) {
	t.Helper()
	f, err := os.Create(path)
	check(t, err)
	_, err1 := f.WriteAt([]byte("begin"), 0)
	_, err2 := f.WriteAt(bytes.Repeat([]byte("x"), 100_000), 9_000_001)
	_, err3 := f.WriteAt([]byte(end), sparseSize-int64(len(end)))
	check(t, errors.Join(err1, err2, err3, f.Truncate(sparseSize), f.Close()))
}

// sparseFolder creates a folder with sparse files.
func sparseFolder(t testing.TB) string {
	t.Helper()
	top := filepath.Join(t.TempDir(), "top")
	check(t, os.MkdirAll(filepath.Join(top, "d"), 0o755))
	sparseFile(t, filepath.Join(top, "a"), "end")
	sparseFile(t, filepath.Join(top, "d", "häßlich"), "")
	check(t, os.Link(filepath.Join(top, "a"), filepath.Join(top, "d", "linked")))
	put(t, filepath.Join(top, "z"), "after", 0o644)
	return top
}

// checkSameHoles compares the files of two folders, and checks that the second one has the holes.
func checkSameHoles(t *testing.T, want, got string) {
	t.Helper()
	run(t, "diff", "-r", want, got)
	for _, name := range []string{"a", "d/häßlich"} {
		var st unix.Stat_t
		check(t, unix.Stat(filepath.Join(got, name), &st))
		if st.Blocks*512 > 1<<20 {
			t.Errorf("%s uses %d bytes", name, st.Blocks*512)
		}
	}
}

// TestHolesOfSources checks that sources write holes as sparse entries, which GNU tar, Python and
// pyro read, and that the limit counts only data.
func TestHolesOfSources(t *testing.T) {
	top := sparseFolder(t)
	sources := map[string]string{"folder": top}
	for name, format := range map[string][]string{
		"old.tar": {"--format=oldgnu"}, "gnu.tar": {"--format=gnu"}, "gnu.tgz": {"--format=gnu", "-z"}, "0.0.tar": {"--format=pax", "--sparse-version=0.0"},
		"0.1.tar": {"--format=pax", "--sparse-version=0.1"}, "1.0.tar": {"--format=pax", "--sparse-version=1.0"}, "1.0.tgz": {"--format=pax", "-z"},
	} {
		sources[name] = filepath.Join(t.TempDir(), name)
		run(t, "tar", append(format, "-S", "-C", top, "-cf", sources[name], ".")...)
	}
	for name, path := range sources {
		t.Run(name, func(t *testing.T) {
			source, err := Open(path)
			check(t, err)
			defer source.Close()
			var stream bytes.Buffer
			summary, err := source.WriteTar(t.Context(), &stream, Policy{Limits: Limits{Bytes: fewBytes}})
			check(t, err)
			if summary.Bytes != 2*sparseSize+5 || stream.Len() > 1<<20 {
				t.Errorf("%+v in a stream of %d bytes", summary, stream.Len())
			}
			for reader, unpack := range map[string]func(to string) error{
				"pyro": func(to string) error {
					check(t, os.Remove(to))
					_, err := tree.Write(t.Context(), bytes.NewReader(stream.Bytes()), to)
					return err
				},
				"pyro, in a machine": func(to string) error {
					root, err := os.Open(to)
					check(t, err)
					defer root.Close()
					_, err = volume.Unpack(t.Context(), int(root.Fd()), "/", bytes.NewReader(stream.Bytes()), &volume.Owner{UID: os.Geteuid(), GID: os.Getegid()})
					return err
				},
				"tar": func(to string) error { return fed(stream.Bytes(), "tar", "-xf", "-", "-C", to) },
				"python3": func(to string) error {
					return fed(stream.Bytes(), "python3", "-c", "import sys, tarfile; tarfile.open(fileobj=sys.stdin.buffer, mode='r|').extractall(sys.argv[1])", to)
				},
			} {
				if _, err := exec.LookPath(reader); err != nil && reader == "python3" {
					continue
				}
				to := t.TempDir()
				if err := unpack(to); err != nil {
					t.Errorf("%s: %v", reader, err)
					continue
				}
				checkSameHoles(t, top, to)
			}
		})
	}
}

func fed(stdin []byte, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = errors.Join(err, errors.New(string(out)))
	}
	return err
}

// TestHolesOfExports checks that exports keep the holes of a machine's files.
func TestHolesOfExports(t *testing.T) {
	top := sparseFolder(t)
	root, err := os.Open(top)
	check(t, err)
	defer root.Close()
	var stream bytes.Buffer
	_, err = volume.WriteTree(&stream, root, "")
	check(t, err)
	if stream.Len() > 1<<20 {
		t.Errorf("the stream has %d bytes", stream.Len())
	}
	limits := Limits{Bytes: fewBytes}
	for name, export := range map[string]func(to string) error{
		"extract": func(to string) error {
			_, err := Extract(t.Context(), bytes.NewReader(stream.Bytes()), to, Options{Force: true, Limits: limits})
			return err
		},
		"merge": func(to string) error {
			_, err := Merge(t.Context(), bytes.NewReader(stream.Bytes()), to, limits)
			return err
		},
	} {
		to := t.TempDir()
		if err := export(to); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		checkSameHoles(t, top, to)
	}
}

// TestHostileHoles checks that hostile sparse entries are refused in time, and leave nothing.
func TestHostileHoles(t *testing.T) {
	const size = 4 << 20
	var scattered sparse.Ranges
	for at := int64(0); at < size; at += sparse.Block {
		scattered = append(scattered, sparse.Range{At: at, Length: 1})
	}
	for name, c := range map[string]struct {
		size int64
		data sparse.Ranges
		kind fault.Kind
	}{
		"overlapping":     {size, sparse.Ranges{{At: 0, Length: 100}, {At: 50, Length: 100}}, fault.Invalid},
		"out of order":    {size, sparse.Ranges{{At: 8192, Length: 100}, {At: 0, Length: 100}}, fault.Invalid},
		"negative offset": {size, sparse.Ranges{{At: -5, Length: 100}}, fault.Invalid},
		"negative length": {size, sparse.Ranges{{At: 0, Length: -100}, {At: 0, Length: 200}}, fault.Invalid},
		"beyond the end":  {size, sparse.Ranges{{At: size - 1, Length: 100}}, fault.Invalid},
		"overflow":        {math.MaxInt64, sparse.Ranges{{At: math.MaxInt64 - 10, Length: 100}}, fault.Invalid},
		"huge":            {math.MaxInt64, sparse.Ranges{{At: 0, Length: 100}}, fault.Exhausted},
		"larger":          {maxHoles<<20 + 1, nil, fault.Exhausted},
		"negative size":   {-1, nil, fault.Invalid},
		"scattered data":  {size, scattered, fault.Exhausted},
	} {
		t.Run(name, func(t *testing.T) {
			header := volume.SparseHeader("f", &unix.Stat_t{Mode: 0o644, Size: c.size}, c.data)
			content := bytes.Repeat([]byte("x"), int(max(0, c.data.Bytes())))
			stream := append(header, content...)
			stream = append(stream, make([]byte, -len(stream)&511+1024)...)
			path := filepath.Join(t.TempDir(), "a.tar")
			check(t, os.WriteFile(path, stream, 0o600))
			source, err := Open(path)
			check(t, err)
			defer source.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			limits := Limits{Bytes: 1 << 20}
			if _, err := source.WriteTar(ctx, io.Discard, Policy{Limits: limits}); fault.KindOf(err) != c.kind {
				t.Errorf("as a source: %s: %v", fault.KindOf(err), err)
			}
			to := filepath.Join(t.TempDir(), "to")
			if _, err := Extract(ctx, bytes.NewReader(stream), to, Options{Limits: limits}); fault.KindOf(err) != c.kind || exists(to) {
				t.Errorf("as an export: %s: %v", fault.KindOf(err), err)
			}
		})
	}
}

// sparseSeeds are sparse archives for fuzz tests.
func sparseSeeds(f *testing.F) (all [][]byte) {
	for _, data := range []sparse.Ranges{nil, {{At: 0, Length: 5}}, {{At: 4096, Length: 512}, {At: 12288, Length: 7}}} {
		b := volume.SparseHeader("f", &unix.Stat_t{Mode: 0o644, Size: 20_000}, data)
		b = append(b, bytes.Repeat([]byte("x"), int(data.Bytes()))...)
		all = append(all, append(b, make([]byte, -len(b)&511+1024)...))
	}
	path := filepath.Join(f.TempDir(), "hollow")
	sparseFile(f, path, "end")
	check(f, os.Truncate(path, 100_000))
	for _, format := range [][]string{{"--format=oldgnu"}, {"--format=pax", "--sparse-version=0.0"}, {"--format=pax", "--sparse-version=0.1"}} {
		to := filepath.Join(f.TempDir(), "a.tar")
		run(f, "tar", append(format, "-S", "-C", filepath.Dir(path), "-cf", to, "hollow")...)
		b, err := os.ReadFile(to)
		check(f, err)
		all = append(all, b)
	}
	return all
}
