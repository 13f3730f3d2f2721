package sparse

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// contents are contents of files, by name.
func contents(t *testing.T) map[string][]byte {
	random := testenv.Rand(t, 37)
	all := map[string][]byte{
		"empty": {}, "short zeros": make([]byte, 100), "zeros": make([]byte, 10*Block), "zeros and a tail": make([]byte, 3*Block+7),
		"data": bytes.Repeat([]byte("x"), 5*Block+1), "data, hole": append(bytes.Repeat([]byte("x"), 10), make([]byte, 4*Block)...),
		"hole, data": append(make([]byte, 4*Block), 'x'), "many holes": bytes.Repeat(append(make([]byte, Block), bytes.Repeat([]byte("x"), Block)...), 3*maxRanges/2),
		"large zeros": make([]byte, scanned+5),
	}
	mixed := make([]byte, 300*Block+1234)
	for range 40 {
		at := random.IntN(len(mixed) - 2*Block)
		copy(mixed[at:], bytes.Repeat([]byte{byte(random.IntN(256))}, random.IntN(2*Block)))
	}
	all["mixed"] = mixed
	return all
}

// TestEach splits content at every position, and checks that the parts without holes together are
// the content.
func TestEach(t *testing.T) {
	for name, content := range contents(t) {
		got, written := make([]byte, len(content)), 0
		random := rand.New(rand.NewPCG(1, 2))
		for at := 0; at < len(content); {
			n := min(1+random.IntN(20*Block), len(content)-at)
			check(t, Each(content[at:at+n], int64(at), func(b []byte, at int64) error {
				written += len(b)
				copy(got[at:], b)
				return nil
			}))
			at += n
		}
		if !bytes.Equal(got, content) {
			t.Errorf("%s: the content differs", name)
		}
		if name == "zeros" && written > 8*Block {
			t.Errorf("%s: %d bytes of zeros were written", name, written)
		}
	}
}

// TestScan checks that the ranges are in order, bounded in number, and contain all data.
func TestScan(t *testing.T) {
	for name, content := range contents(t) {
		data, err := Scan(bytes.NewReader(content), int64(len(content)))
		check(t, err)
		got, end := make([]byte, len(content)), int64(-1)
		for _, r := range data {
			if r.At <= end || r.Length < 1 || r.At+r.Length > int64(len(content)) {
				t.Fatalf("%s: range %+v after %d", name, r, end)
			}
			end = r.At + r.Length
			copy(got[r.At:end], content[r.At:])
		}
		if !bytes.Equal(got, content) || len(data) > maxRanges {
			t.Errorf("%s: %d ranges, and the same content: %v", name, len(data), bytes.Equal(got, content))
		}
		if strings.HasPrefix(name, "zeros") && data.Bytes() >= Block {
			t.Errorf("%s: %d bytes of data", name, data.Bytes())
		}
	}
	if _, err := Scan(strings.NewReader("short"), 6); err == nil {
		t.Error("short content was accepted")
	}
}

func TestOf(t *testing.T) {
	for name, content := range contents(t) {
		for _, way := range []string{"dense", "sparse"} {
			f, err := os.Create(filepath.Join(t.TempDir(), "file"))
			check(t, err)
			defer f.Close()
			if way == "dense" {
				_, err = f.Write(content)
			} else {
				check(t, f.Truncate(int64(len(content))))
				err = Each(content, 0, func(b []byte, at int64) error {
					_, err := f.WriteAt(b, at)
					return err
				})
			}
			check(t, err)
			var st unix.Stat_t
			check(t, unix.Fstat(int(f.Fd()), &st))
			data, holes, err := Of(int(f.Fd()), &st)
			check(t, err)
			wanted := (way == "sparse" || name == "large zeros") && strings.Contains(name, "zeros") && name != "short zeros"
			if wanted && (!holes || data.Bytes() >= Block) {
				t.Errorf("%s, %s: %v, %d bytes of data", name, way, holes, data.Bytes())
			}
			if !holes {
				continue
			}
			got := make([]byte, len(content))
			for _, r := range data {
				copy(got[r.At:r.At+r.Length], content[r.At:])
			}
			if !bytes.Equal(got, content) {
				t.Errorf("%s, %s: data is missing", name, way)
			}
		}
	}
}

func TestMap(t *testing.T) {
	for want, data := range map[string]Ranges{
		"1\n100\n0\n":              nil,
		"1\n0\n100\n":              {{0, 100}},
		"2\n10\n20\n100\n0\n":      {{10, 20}},
		"2\n0\n20\n30\n70\n":       {{0, 20}, {30, 70}},
		"3\n0\n1\n30\n1\n100\n0\n": {{0, 1}, {30, 1}},
	} {
		if got := data.Map(100); len(got) != 512 || string(bytes.TrimRight(got, "\x00")) != want {
			t.Errorf("%v: %q", data, got)
		}
	}
}
