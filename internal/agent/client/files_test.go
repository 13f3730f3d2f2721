package client

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestFiles(t *testing.T) {
	c := dial(t, startAgent(t))
	ctx := within(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "a", "b", "file")
	data := make([]byte, 3<<20+17)
	rand.New(rand.NewSource(3)).Read(data)

	if err := c.WriteFile(ctx, FileSpec{Path: file, Size: 1}, strings.NewReader("x")); fault.KindOf(err) != fault.NotFound {
		t.Errorf("without parents: %v", err)
	}
	if err := c.WriteFile(ctx, FileSpec{Path: file, Mode: 0o640, MakeParents: true, Size: int64(len(data))}, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	got, err := c.Stat(ctx, file)
	if err != nil || got.Mode != 0o640 || got.Size != int64(len(data)) || time.Since(got.ModTime) > time.Minute || got.UID != os.Getuid() {
		t.Errorf("%+v, %v", got, err)
	}
	for name, want := range map[string]struct {
		offset, limit int64
		data          []byte
	}{
		"all":       {0, 0, data},
		"from":      {1 << 20, 0, data[1<<20:]},
		"part":      {5, 1 << 20, data[5 : 5+1<<20]},
		"past":      {int64(len(data)) - 3, 100, data[len(data)-3:]},
		"after end": {int64(len(data)) + 3, 100, nil},
	} {
		var b bytes.Buffer
		n, err := c.ReadFile(ctx, file, want.offset, want.limit, &b)
		if err != nil || n != int64(len(want.data)) || !bytes.Equal(b.Bytes(), want.data) {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
	}
	if _, err := c.ReadFile(ctx, file, 0, 0, writerFunc(func([]byte) (int, error) { return 0, errBroken })); !errors.Is(err, errBroken) {
		t.Errorf("a writer that fails: %v", err)
	}
	// If a write fails, the old file stays, and no temporary file remains.
	if err := c.WriteFile(ctx, FileSpec{Path: file, Size: 1 << 20}, iotest.TimeoutReader(bytes.NewReader(data[:1000]))); !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("a reader that fails: %v", err)
	}
	if err := c.WriteFile(ctx, FileSpec{Path: file, Size: 1 << 20}, bytes.NewReader(data[:1000])); err == nil {
		t.Error("a reader that ends early was accepted")
	}
	testenv.Eventually(t, "nothing is left beside the file", func() bool {
		entries, _ := os.ReadDir(filepath.Dir(file))
		return len(entries) == 1
	})
	if b, _ := os.ReadFile(file); !bytes.Equal(b, data) {
		t.Error("the file is not the old one")
	}
	if err := c.WriteFile(ctx, FileSpec{Path: file}, nil); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(file); err != nil || info.Size() != 0 || info.Mode() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
	os.Symlink("there", filepath.Join(dir, "link"))
	os.Chmod(filepath.Join(dir, "a"), 0o755|fs.ModeSticky)
	for name, want := range map[string]File{"link": {Mode: fs.ModeSymlink | 0o777, LinkTarget: "there"}, "a": {Mode: fs.ModeDir | fs.ModeSticky | 0o755}} {
		got, err := c.Stat(ctx, filepath.Join(dir, name))
		if err != nil || got.Mode != want.Mode || got.LinkTarget != want.LinkTarget {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if got, err := c.Stat(ctx, "/dev/null"); err != nil || got.Mode.Type() != fs.ModeIrregular {
		t.Errorf("%+v, %v", got, err)
	}
	for name, want := range map[string]struct {
		path string
		kind fault.Kind
	}{
		"missing":  {dir + "/none", fault.NotFound},
		"relative": {"file", fault.Invalid},
		"folder":   {dir, fault.Precondition},
		"device":   {"/dev/zero", fault.Precondition},
		"loop":     {"/proc/self/exe", fault.Precondition},
	} {
		if _, err := c.ReadFile(ctx, want.path, 0, 0, nil); fault.KindOf(err) != want.kind {
			t.Errorf("read %s: %s: %v", name, fault.KindOf(err), err)
		}
		if err := c.WriteFile(ctx, FileSpec{Path: want.path + "/x"}, nil); err == nil {
			if name != "folder" {
				t.Errorf("%s was written below", name)
			}
		}
	}
	if _, err := c.ReadFile(ctx, file, -1, 0, nil); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a negative offset: %v", err)
	}
	if err := c.WriteFile(ctx, FileSpec{Path: "/x/"}, nil); err == nil || err.Error() != `write "/x/": path must name a file` {
		t.Errorf("a path without a name: %v", err)
	}
}

// TestUnreadableFile checks that a read error in the agent is not treated as the end of the
// file.
func TestUnreadableFile(t *testing.T) {
	c := dial(t, startAgent(t))
	// Reading /proc/1/mem fails, because the memory at offset 0 is not mapped.
	var b bytes.Buffer
	n, err := c.ReadFile(within(t), "/proc/1/mem", 0, 0, &b)
	if kind := fault.KindOf(err); kind != fault.Unavailable && kind != fault.Permission {
		t.Errorf("%d bytes, %s: %v", n, kind, err)
	}
}

// TestCutFile checks that the client continues to read a file after the link breaks.
func TestCutFile(t *testing.T) {
	data := make([]byte, 4<<20)
	rand.New(rand.NewSource(4)).Read(data)
	file := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	sessions := 0
	for seed := range 10 {
		link := &cutter{Conn: startAgent(t), random: rand.New(rand.NewSource(int64(seed))), most: 3 << 20}
		c := dial(t, link)
		link.mu.Lock()
		link.cuts = 1000
		link.arm()
		link.mu.Unlock()
		var b bytes.Buffer
		if _, err := c.ReadFile(within(t), file, 0, 0, &b); err != nil || !bytes.Equal(b.Bytes(), data) {
			t.Errorf("seed %d: %d bytes are not the file, after %d sessions: %v", seed, b.Len(), link.sessions, err)
		}
		link.mu.Lock()
		link.cuts = 0
		sessions += link.sessions
		link.mu.Unlock()
	}
	if sessions < 15 {
		t.Errorf("only %d sessions: the test cut no connection", sessions)
	}
}

// TestRename renames files of a machine, including files with the longest paths. It checks kinds
// and hints of errors.
func TestRename(t *testing.T) {
	c := dial(t, startAgent(t))
	ctx := within(t)
	dir := t.TempDir()
	os.WriteFile(dir+"/old", []byte("x"), 0o600)
	os.Mkdir(dir+"/folder", 0o755)
	if err := c.Rename(ctx, dir+"/old", dir+"/new\xff\n%2f"); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(dir + "/new\xff\n%2f"); string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
	os.WriteFile(dir+"/old", []byte("y"), 0o600)
	long := strings.Repeat("/"+strings.Repeat("\xff", 200), 20)
	for name, want := range map[string]struct {
		from, to string
		kind     fault.Kind
		text     string
		hint     string
	}{
		"onto a folder":  {dir + "/old", dir + "/folder", fault.Exists, "it already exists", ""},
		"missing":        {dir + "/none", dir + "/new", fault.NotFound, dir + "/none", ""},
		"below a file":   {dir + "/old/x", dir + "/new", fault.NotFound, "", ""},
		"missing parent": {dir + "/old", dir + "/none/new", fault.NotFound, dir + `/none": no such file`, "make this folder first"},
		"into itself":    {dir + "/folder", dir + "/folder/x", fault.Invalid, "into itself", ""},
		"the root":       {"/", "/new", fault.Invalid, "can't be", ""},
		"relative":       {dir + "/old", "new", fault.Invalid, "absolute", ""},
		"long paths":     {long, long + "x", fault.NotFound, "", ""},
	} {
		err := c.Rename(ctx, want.from, want.to)
		if fault.KindOf(err) != want.kind || !strings.Contains(err.Error(), want.text) || fault.HintOf(err) != want.hint {
			t.Errorf("%s: %s: %v (%s)", name, fault.KindOf(err), err, fault.HintOf(err))
		}
	}
	if b, err := os.ReadFile(dir + "/old"); string(b) != "y" {
		t.Errorf("after the refusals: %q, %v", b, err)
	}
}
