package client

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// tarOf returns a tar archive with the given files.
func tarOf(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o644, ModTime: time.Unix(1, 0), Format: tar.FormatPAX}
		if content == "delete" {
			h.Size, h.PAXRecords = 0, map[string]string{"PYRO.op": "delete"}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			io.WriteString(w, content)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// untar returns the names and contents of the files in an archive.
func untar(t testing.TB, archive []byte) (names []string, files map[string]string) {
	t.Helper()
	files = map[string]string{}
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return names, files
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		files[h.Name] = string(b)
	}
}

// list returns the names of the entries at a path.
func list(t testing.TB, c *Client, path string, recursive bool) (names []string) {
	t.Helper()
	if err := c.List(within(t), path, recursive, func(e listing.Entry) error {
		names = append(names, e.Path)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

// TestVolumeCalls uses all calls on a volume.
func TestVolumeCalls(t *testing.T) {
	dir := memory(t)
	c := dial(t, startAgentWith(t, dir))
	ctx := within(t)
	for name, call := range map[string]func() error{
		"List":            func() error { return c.List(ctx, "", true, func(listing.Entry) error { return nil }) },
		"StatVolume":      func() error { _, err := c.StatVolume(ctx, ""); return err },
		"ReadTree":        func() error { _, err := c.ReadTree(ctx, "", io.Discard); return err },
		"Change":          func() error { _, err := c.Change(ctx, bytes.NewReader(tarOf(t, nil)), -1); return err },
		"ReadVolumeFile":  func() error { _, err := c.ReadVolumeFile(ctx, "x", 0, 0, io.Discard); return err },
		"WriteVolumeFile": func() error { return c.WriteVolumeFile(ctx, FileSpec{Path: "x"}, nil) },
		"Flush":           func() error { return c.Flush(ctx, true) },
		"Freeze":          func() error { _, err := c.Freeze(ctx, Mounts{Volume: true}, time.Second); return err },
	} {
		if err := call(); fault.KindOf(err) != fault.Precondition {
			t.Errorf("%s before Mount: %s: %v", name, fault.KindOf(err), err)
		}
	}
	for range 2 {
		if r, err := c.Mount(ctx, Mounts{Root: true, Volume: true}); err != nil || r != (Recovered{}) {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if err := c.WriteVolumeFile(ctx, FileSpec{Path: "a/b/file", Size: 5, MakeParents: true, Mode: 0o600}, strings.NewReader("hello")); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if n, err := c.ReadVolumeFile(ctx, "a/b/file", 1, 3, &b); n != 3 || err != nil || b.String() != "ell" {
		t.Errorf("%q, %v", b.String(), err)
	}
	done, err := c.Change(ctx, bytes.NewReader(tarOf(t, map[string]string{"a/b/file": "delete", "new/file": "content"})), -1)
	if err != nil || done != (Changes{Created: 1, Deleted: 1, Bytes: 7}) {
		t.Errorf("%+v, %v", done, err)
	}
	if got := strings.Join(list(t, c, "", true), " "); got != " a a/b new new/file" {
		t.Errorf("%q", got)
	}
	if got := strings.Join(list(t, c, "new", false), " "); got != " file" {
		t.Errorf("%q", got)
	}
	if e, err := c.StatVolume(ctx, "new/file"); err != nil || e.Path != "" || e.Kind != listing.File || e.Size != 7 {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := c.StatVolume(ctx, "new/none"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("%v", err)
	}
	b.Reset()
	counts, err := c.ReadTree(ctx, "new", &b)
	names, files := untar(t, b.Bytes())
	if err != nil || counts != (TreeCounts{Entries: 2}) || strings.Join(names, " ") != "new/ new/file" || files["new/file"] != "content" {
		t.Errorf("%+v, %v: %q", counts, err, names)
	}
	if err := c.Flush(ctx, true); err != nil {
		t.Error(err)
	}
	if frozen, err := c.Freeze(ctx, Mounts{Root: true, Volume: true}, time.Second); frozen || err != nil {
		t.Errorf("%t, %v", frozen, err)
	}
	if held, err := c.Thaw(ctx); held || err != nil {
		t.Errorf("%t, %v", held, err)
	}
	// The working directory and PYRO_WORKSPACE lead to the volume's files.
	command := sh(`pwd; cat new/file; echo; echo $PYRO_WORKSPACE`)
	command.Cwd = "/workspace"
	files0 := filepath.Join(dir, volume.FilesFolder)
	if r := run(t, c, command, nil); r.out != files0+"\ncontent\n"+files0+"\n" {
		t.Errorf("%+v", r)
	}
	command.Cwd = "/workspace/new"
	if r := run(t, c, command, nil); !strings.HasPrefix(r.out, files0+"/new\n") {
		t.Errorf("%+v", r)
	}
	if f, err := c.Stat(ctx, "/workspace/new/file"); err != nil || f.Size != 7 {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := c.Stat(ctx, "/workspaces"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("%v", err)
	}
	if err := c.WriteFile(ctx, FileSpec{Path: "/workspace/by-place", Size: 1}, strings.NewReader("x")); err != nil {
		t.Error(err)
	}
	b.Reset()
	if _, err := c.ReadFile(ctx, "/workspace/by-place", 0, 0, &b); err != nil || b.String() != "x" {
		t.Errorf("%q, %v", b.String(), err)
	}
}

// TestVolumeErrors checks the kinds and subjects of errors.
func TestVolumeErrors(t *testing.T) {
	dir := memory(t)
	c := dial(t, startAgentWith(t, dir))
	ctx := within(t)
	if _, err := c.Mount(ctx, Mounts{Volume: true}); err != nil {
		t.Fatal(err)
	}
	files := filepath.Join(dir, volume.FilesFolder)
	os.Mkdir(files+"/folder", 0o755)
	os.Symlink("/etc", files+"/out")
	for name, c2 := range map[string]struct {
		kind fault.Kind
		call func() error
	}{
		"read nothing":    {fault.NotFound, func() error { _, err := c.ReadVolumeFile(ctx, "none", 0, 0, io.Discard); return err }},
		"read a folder":   {fault.Precondition, func() error { _, err := c.ReadVolumeFile(ctx, "folder", 0, 0, io.Discard); return err }},
		"read out":        {fault.Permission, func() error { _, err := c.ReadVolumeFile(ctx, "out/passwd", 0, 0, io.Discard); return err }},
		"read up":         {fault.Invalid, func() error { _, err := c.ReadVolumeFile(ctx, "../x", 0, 0, io.Discard); return err }},
		"write out":       {fault.Permission, func() error { return c.WriteVolumeFile(ctx, FileSpec{Path: "out/x"}, nil) }},
		"write no folder": {fault.NotFound, func() error { return c.WriteVolumeFile(ctx, FileSpec{Path: "none/x"}, nil) }},
		"list nothing":    {fault.NotFound, func() error { return c.List(ctx, "none", true, nil) }},
		"list out":        {fault.Permission, func() error { return c.List(ctx, "out", true, nil) }},
		"tree of nothing": {fault.NotFound, func() error { _, err := c.ReadTree(ctx, "none", io.Discard); return err }},
		"tree out":        {fault.Permission, func() error { _, err := c.ReadTree(ctx, "out", io.Discard); return err }},
		"tree, absolute":  {fault.Invalid, func() error { _, err := c.ReadTree(ctx, "/etc", io.Discard); return err }},
		"change a folder": {fault.Precondition, func() error {
			_, err := c.Change(ctx, bytes.NewReader(tarOf(t, map[string]string{"folder": "x"})), -1)
			return err
		}},
		"change outside": {fault.Invalid, func() error {
			_, err := c.Change(ctx, bytes.NewReader(tarOf(t, map[string]string{"../x": "x"})), -1)
			return err
		}},
		"change by no tar": {fault.Invalid, func() error { _, err := c.Change(ctx, strings.NewReader(strings.Repeat("x", 3000)), 3000); return err }},
		"no limit":         {fault.Invalid, func() error { _, err := c.Freeze(ctx, Mounts{Volume: true}, 0); return err }},
		"too long a limit": {fault.Invalid, func() error { _, err := c.Freeze(ctx, Mounts{Volume: true}, 49*24*time.Hour+20*time.Hour); return err }},
	} {
		err := c2.call()
		if fault.KindOf(err) != c2.kind {
			t.Errorf("%s: %s: %v", name, fault.KindOf(err), err)
		}
		if c2.kind == fault.Permission && !strings.Contains(err.Error(), "leads out of the workspace") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := c.Change(ctx, bytes.NewReader(tarOf(t, map[string]string{"folder": "x"})), -1)
	var f *fault.Error
	if !errors.As(err, &f) || f.Subject != "folder" || err.Error() != `change the workspace "folder": it is a directory` {
		t.Errorf("%v", err)
	}
	broken := errors.New("broken")
	if _, err := c.Change(ctx, io.MultiReader(bytes.NewReader(tarOf(t, map[string]string{"new": "x"})[:700]), brokenReader{broken}), -1); !errors.Is(err, broken) {
		t.Errorf("a reader that fails: %v", err)
	}
	if _, err := c.Change(ctx, bytes.NewReader(tarOf(t, map[string]string{"new": "x"})), 100_000); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a reader that ends early: %v", err)
	}
	if err := c.List(ctx, "", true, func(listing.Entry) error { return broken }); err != broken {
		t.Errorf("a list that is not wanted: %v", err)
	}
	if _, err := c.ReadTree(ctx, "", writerFunc(func([]byte) (int, error) { return 0, broken })); !errors.Is(err, broken) {
		t.Errorf("a writer that fails: %v", err)
	}
	if got := strings.Join(list(t, c, "", true), " "); got != " folder out" {
		t.Errorf("%q", got)
	}
}

type brokenReader struct{ err error }

func (f brokenReader) Read([]byte) (int, error) { return 0, f.err }

// TestVolumeThroughSharedBuffer transfers lists, trees and changes that are larger than the
// shared buffer. It does so with and without a shared buffer.
func TestVolumeThroughSharedBuffer(t *testing.T) {
	for _, share := range []bool{true, false} {
		c, theirs, dir := volumeWithBuffer(t, share)
		ctx := within(t)
		want := map[string]string{}
		for i := range 60 {
			b := make([]byte, rand.New(rand.NewSource(int64(i))).Intn(300_000))
			rand.New(rand.NewSource(int64(i))).Read(b)
			want[fmt.Sprintf("dir-%d/file-%d", i%7, i)] = string(b)
		}
		archive := tarOf(t, want)
		done, err := c.Change(ctx, bytes.NewReader(archive), -1)
		if err != nil || done.Created != 60 {
			t.Fatalf("%+v, %v", done, err)
		}
		if done, err = c.Change(ctx, bytes.NewReader(archive), int64(len(archive))); err != nil || done.Replaced != 60 {
			t.Fatalf("%+v, %v", done, err)
		}
		read := theirs.read
		var b bytes.Buffer
		counts, err := c.ReadTree(ctx, "", &b)
		_, got := untar(t, b.Bytes())
		if err != nil || counts.Entries != 68 {
			t.Errorf("%+v, %v", counts, err)
		}
		for name, content := range want {
			if got["./"+name] != content {
				t.Errorf("%s: %d bytes", name, len(got["./"+name]))
			}
		}
		for i := range 12_000 {
			if i < 20 {
				os.Mkdir(fmt.Sprintf("%s/many-%d", dir, i), 0o755)
			}
			f, err := os.Create(fmt.Sprintf("%s/many-%d/%d", dir, i%20, i))
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
		written := theirs.written
		if names := list(t, c, "", true); len(names) != 12_000+20+68 {
			t.Errorf("%d entries", len(names))
		}
		if used := read > 2*len(archive) && written > len(archive) && theirs.written > written; used != share {
			t.Errorf("shared: %t, but %d bytes were read from the shared buffer, %d and then %d written", share, read, written, theirs.written)
		}
		// Errors also arrive if the call uses the shared buffer, and they do not affect the next
		// call.
		for range 3 {
			want["dir-0"] = "x"
			if _, err := c.Change(ctx, bytes.NewReader(tarOf(t, want)), -1); fault.KindOf(err) != fault.Precondition || !strings.Contains(err.Error(), `"dir-0": it is a directory`) {
				t.Errorf("%v", err)
			}
			if _, err := c.Change(ctx, io.MultiReader(strings.NewReader(strings.Repeat("no tar", 1000)), bytes.NewReader(archive)), -1); fault.KindOf(err) != fault.Invalid {
				t.Errorf("%v", err)
			}
		}
		if err := c.List(ctx, "", true, func(listing.Entry) error { return fs.ErrClosed }); err != fs.ErrClosed {
			t.Errorf("%v", err)
		}
		list(t, c, "dir-0", true)
	}
}

// volumeWithBuffer starts an agent with a volume. If share is true, the agent also has a shared
// buffer. It returns the client, the agent's side of the buffer and the folder of the volume.
func volumeWithBuffer(t *testing.T, share bool) (*Client, *counted, string) {
	t.Helper()
	dir := memory(t)
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	v, _, err := volume.Open(root, volume.LocalFS)
	if err != nil {
		t.Fatal(err)
	}
	c, theirs := startWithBufferIn(t, share, &execEnv{files: files{volume: v}})
	t.Cleanup(func() { v.Close(within(t)) })
	return c, theirs, filepath.Join(dir, volume.FilesFolder)
}
