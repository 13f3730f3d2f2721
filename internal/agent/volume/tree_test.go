package volume

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/volume/volumetest"
)

// writes is a writer that calls the function do once, at the first large write.
type writes struct {
	bytes.Buffer
	do func()
}

func (w *writes) Write(p []byte) (int, error) {
	if w.do != nil && len(p) > 100_000 {
		w.do()
		w.do = nil
	}
	return w.Buffer.Write(p)
}

// TestFileChangesDuringRead modifies a file while WriteTree reads it. It checks that the
// archive stays valid and that the file is counted as changed.
func TestFileChangesDuringRead(t *testing.T) {
	for name, change := range map[string]func(string) error{
		"shrinks": func(path string) error { return os.Truncate(path, 1000) },
		"grows":   func(path string) error { return os.Truncate(path, 5<<20) },
		"changes": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			time.Sleep(20 * time.Millisecond) // longer than the resolution of file times
			_, err = f.WriteAt([]byte("other"), 100)
			return err
		},
		"stays": func(string) error { return nil },
	} {
		dir := t.TempDir()
		content := bytes.Repeat([]byte("content "), 1<<17)
		volumetest.Put(t, dir+"/a", string(content))
		volumetest.Put(t, dir+"/b", "behind it")
		top, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		to := &writes{do: func() {
			if err := change(dir + "/a"); err != nil {
				t.Error(err)
			}
		}}
		counts, err := WriteTree(to, top, "x")
		if err != nil {
			t.Fatal(err)
		}
		if (counts.Changed == 1) != (name != "stays") || counts.Entries != 3 {
			t.Errorf("%s: %+v", name, counts)
		}
		entries := tar.NewReader(to)
		got := map[string]string{}
		for {
			h, err := entries.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			b, err := io.ReadAll(entries)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got[h.Name] = string(b)
		}
		if len(got["x/a"]) != len(content) || got["x/b"] != "behind it" {
			t.Errorf("%s: %d bytes, and then %q", name, len(got["x/a"]), got["x/b"])
		}
		if name == "shrinks" && strings.Trim(got["x/a"][treeBuffer:], "\x00") != "" {
			t.Error("the missing bytes are not zero")
		}
		top.Close()
	}
}

// TestWriteTreeErrors checks that WriteTree returns read and write errors.
func TestWriteTreeErrors(t *testing.T) {
	dir := t.TempDir()
	volumetest.Put(t, dir+"/a", "1")
	volumetest.Put(t, dir+"/b", strings.Repeat("2", 1000))
	top, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	full := errors.New("full")
	if _, err := WriteTree(&limitedWriter{left: 2000, err: full}, top, ""); err != full {
		t.Errorf("a writer that fails: %v", err)
	}
	if os.Getuid() == 0 {
		return
	}
	os.Chmod(dir+"/b", 0)
	if _, err := WriteTree(io.Discard, top, ""); !errors.Is(err, unix.EACCES) || !strings.Contains(err.Error(), "./b") {
		t.Errorf("a file that can't be read: %v", err)
	}
}

type limitedWriter struct {
	left int
	err  error
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, w.err
	}
	return len(p), nil
}

// TestHeadersMatchArchiveTar encodes headers of all kinds. It checks that archive/tar decodes
// them correctly.
func TestHeadersMatchArchiveTar(t *testing.T) {
	var blocks tarBlocks
	for _, kind := range []byte{tarFile, tarLink, tarSymlink, tarFolder} {
		for _, length := range []int{1, 87, 88, 89, 99, 100, 101, 255, 981, 982, 983, 4096} {
			for _, letter := range []string{"n", "\xff"} {
				for _, at := range []unix.Timespec{{}, {Sec: 1}, {Sec: 1<<33 - 1}, {Sec: 1 << 33, Nsec: 1}, {Sec: 1700000000, Nsec: 999999999}, {Sec: -1}, {Sec: -1, Nsec: 1}, {Sec: -5, Nsec: 500000000}} {
					for _, big := range []bool{false, true} {
						st := &unix.Stat_t{Mode: unix.S_IFREG | 0o6751, Uid: 1000, Gid: 100, Mtim: at}
						e := tarEntry{kind: kind, name: strings.Repeat(letter, length), st: st}
						if big {
							st.Uid, st.Gid = 1<<21, 1<<32-1
						}
						if kind == tarFile {
							e.size = map[bool]int64{false: 0, true: 1 << 40}[big]
						}
						if kind == tarLink || kind == tarSymlink {
							e.target = strings.Repeat(letter, length+1)
						}
						if kind == tarFolder {
							e.name += "/"
						}
						h, err := tar.NewReader(bytes.NewReader(blocks.header(e))).Next()
						if err != nil {
							t.Fatalf("%+v: %v", e, err)
						}
						if h.Typeflag != kind || h.Name != e.name || h.Linkname != e.target || h.Size != e.size || h.Mode != 0o6751 ||
							int64(h.Uid) != int64(st.Uid) || int64(h.Gid) != int64(st.Gid) || !h.ModTime.Equal(time.Unix(at.Unix())) {
							t.Fatalf("%+v is read as %+v", e, h)
						}
					}
				}
			}
		}
	}
	for at, want := range map[unix.Timespec]string{{Sec: -1, Nsec: 500000000}: "-0.500000000", {Sec: 0, Nsec: -500000000}: "-0.500000000", {Sec: -2, Nsec: -1}: "-2.000000001", {Sec: 3, Nsec: 1}: "3.000000001"} {
		if got := seconds(at); got != want {
			t.Errorf("%+v: %s", at, got)
		}
	}
}
