package machinetest

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// files checks that files of different sizes are transferred unchanged in both directions, through
// the shared buffer if there is one. The shared buffer must be closed when the machine ends.
func (s suite) files(t *testing.T) {
	g := s.renewed(t, usual)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	dir := strings.TrimSpace(g.shell(t, "mktemp -d"))
	defer g.exec(0, "rm", "-r", dir)
	random := rand.New(rand.NewSource(1))
	for _, size := range []int64{0, 1, 5000, 1 << 20, 9<<20 + 4321} {
		data := make([]byte, size)
		random.Read(data)
		if err := g.agent.WriteFile(ctx, client.FileSpec{Path: dir + "/file", Size: size}, bytes.NewReader(data)); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		var b bytes.Buffer
		if _, err := g.agent.ReadFile(ctx, dir+"/file", 0, 0, &b); err != nil || !bytes.Equal(b.Bytes(), data) {
			t.Errorf("wrote %d bytes, read %d: %v", size, b.Len(), err)
		}
	}
	shared := g.SharedBuffer()
	g.Close()
	if shared != nil {
		if _, err := shared.ReadAt(make([]byte, 1), 0); err == nil {
			t.Error("the shared buffer is open after the end of the machine")
		}
	}
}

// trees checks that a tree is unpacked at a path of the machine and packed again, with its owners
// and links. Without isolation, only paths in the volume are allowed.
func (s suite) trees(t *testing.T) {
	spec := s.spec(t, usual)
	spec.Storage = s.newStorage(t)
	g := s.stored(t, spec)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	big := strings.Repeat("0123456789abcdef", 1<<18)
	archive := treeArchive(t, big)
	for _, at := range []string{"/workspace/new/tree", "/opt/new/tree"} {
		_, err := g.agent.PutTree(ctx, at, nil, bytes.NewReader(archive))
		if inside := strings.HasPrefix(at, "/workspace"); !inside && !s.driver.Features().Isolated {
			if fault.KindOf(err) != fault.Permission {
				t.Errorf("%s on the host: %v", at, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		var back bytes.Buffer
		if _, err := g.agent.GetTree(ctx, at, ".", &back); err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		got := map[string]string{}
		for r := tar.NewReader(&back); ; {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(r)
			got[h.Name] = fmt.Sprintf("%c %o %s %d", h.Typeflag, h.Mode, h.Linkname, len(b))
			if h.Name == "./a/file" && (string(b) != big || h.ModTime.Unix() != 1700000000) {
				t.Errorf("%s: the file has other content, or the time %v", at, h.ModTime)
			}
			if strings.HasPrefix(at, "/opt") && h.Name == "./a/file" && (h.Uid != 1000 || h.Gid != 100) {
				t.Errorf("%s: the owner is %d:%d", at, h.Uid, h.Gid)
			}
		}
		if got["./a/"] != "5 750  0" || got["./a/file"] != "0 640  4194304" || got["./a/link"] != "2 777 file 0" || got["./\xff\n"] != "0 644  0" || len(got) != 6 {
			t.Errorf("%s: %v", at, got)
		}
		if hard := got["./b"]; hard != "1 640 ./a/file 0" && hard != "0 640  4194304" { // hard links of a volume can become copies
			t.Errorf("%s: the hard link is %q", at, hard)
		}
	}
}

// treeArchive returns an archive with a large file, links and an odd name.
func treeArchive(t *testing.T, big string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeDir, Name: "a/", Mode: 0o750}, {Typeflag: tar.TypeReg, Name: "a/file", Mode: 0o640, Size: int64(len(big)), Uid: 1000, Gid: 100},
		{Typeflag: tar.TypeSymlink, Name: "a/link", Linkname: "file"}, {Typeflag: tar.TypeLink, Name: "b", Linkname: "a/file"}, {Typeflag: tar.TypeReg, Name: "\xff\n", Mode: 0o644},
	} {
		h.ModTime, h.Format = time.Unix(1700000000, 0), tar.FormatPAX
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			io.WriteString(w, big)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// timers checks that the user's processes have the kernel's default timer slack.
func (s suite) timers(t *testing.T) {
	if slack := s.renewed(t, usual).shell(t, "cat /proc/self/timerslack_ns 2>/dev/null || echo 50000"); slack != "50000" {
		t.Errorf("a process is woken up to %s ns late", slack)
	}
}
