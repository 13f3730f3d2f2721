package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/agent/window"
	"github.com/pyro-mcp/pyro/internal/fault"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// files is a place of files alone, with a volume or without.
type files struct {
	root   *os.File
	volume *volume.Volume
}

func (f files) Root() (int, error)        { return int(f.root.Fd()), nil }
func (files) Do(f func() error) error     { return f() }
func (files) Group() (agent.Group, error) { return nil, errors.ErrUnsupported }
func (files) Start(string, []string, *os.ProcAttr) (agent.Process, error) {
	return nil, errors.ErrUnsupported
}
func (files) Renew(*agentv1.RenewRequest) error         { return nil }
func (files) Path(name string) string                   { return name }
func (files) Env() []string                             { return nil }
func (files) Mount(_, _ bool) (volume.Recovered, error) { return volume.Recovered{}, nil }
func (files) Flush(bool) error                          { return nil }
func (files) Freeze(_, _ bool) (bool, error)            { return false, nil }
func (files) Thaw() error                               { return nil }
func (files) Hold() error                               { return nil }
func (files) Release() error                            { return nil }
func (files) Quiesce(context.Context) error             { return nil }
func (f files) Volume() (*volume.Volume, error)         { return f.volume, nil }

// counted counts what goes through a window.
type counted struct {
	*os.File
	read, written int
}

func (c *counted) ReadAt(p []byte, at int64) (int, error) {
	c.read += len(p)
	return c.File.ReadAt(p, at)
}

func (c *counted) WriteAt(p []byte, at int64) (int, error) {
	c.written += len(p)
	return c.File.WriteAt(p, at)
}

// windowed is an agent that shares a window with its client.
func windowed(t *testing.T, share bool) (c *Client, theirs *counted) {
	t.Helper()
	root, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return windowedIn(t, share, files{root: root})
}

// memfd is memory for a window.
func memfd(t *testing.T) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("window", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	w := os.NewFile(uintptr(fd), "window")
	t.Cleanup(func() { w.Close() })
	if err := w.Truncate(window.Size); err != nil {
		t.Fatal(err)
	}
	return w
}

// windowedIn is one in a place.
func windowedIn(t *testing.T, share bool, place agent.Place) (c *Client, theirs *counted) {
	t.Helper()
	w := memfd(t)
	server := agent.New(place, "test")
	theirs = &counted{File: w}
	if share {
		server.Share(theirs)
	}
	near, far := pair(t)
	conn, err := net.FileConn(far)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := net.FileConn(near)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		server.Serve(conn)
	}()
	c = dial(t, stream)
	c.Share(w)
	t.Cleanup(func() {
		c.Close()
		stream.Close()
		conn.Close()
		<-ended
	})
	return c, theirs
}

func TestWindow(t *testing.T) {
	for _, share := range []bool{true, false} {
		c, theirs := windowed(t, share)
		ctx := within(t, 30*time.Second)
		data := make([]byte, 2*window.Size+777)
		rand.New(rand.NewSource(5)).Read(data)
		path := filepath.Join(t.TempDir(), "file")
		if err := c.WriteFile(ctx, FileSpec{Path: path, Size: int64(len(data))}, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		if b, _ := os.ReadFile(path); !bytes.Equal(b, data) {
			t.Fatal("what was written is not the file")
		}
		for _, part := range []struct{ offset, limit int }{{0, 0}, {12345, 0}, {1, window.SlotSize + 1}, {len(data) - 5, 0}, {7, window.Worth - 1}} {
			var b bytes.Buffer
			want := data[part.offset:]
			if part.limit > 0 {
				want = want[:min(len(want), part.limit)]
			}
			if _, err := c.ReadFile(ctx, path, int64(part.offset), int64(part.limit), &b); err != nil || !bytes.Equal(b.Bytes(), want) {
				t.Errorf("%+v: %d bytes, %v", part, b.Len(), err)
			}
		}
		if went := theirs.read > len(data) && theirs.written > 2*len(data); went != share {
			t.Errorf("shared: %t: %d bytes came through the window, %d went", share, theirs.read, theirs.written)
		}
	}
}

// TestAnAgentThatNeitherGivesNorTakes: what goes through the window ends with its context, also where the agent has granted it and says nothing more.
func TestAnAgentThatNeitherGivesNorTakes(t *testing.T) {
	c, err := Dial(within(t, 10*time.Second), evil(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(window.Header, "1")
		w.WriteHeader(http.StatusOK)
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Share(memfd(t))
	if err := c.WriteFile(within(t, 200*time.Millisecond), FileSpec{Path: "/x", Size: 2 * window.Size}, zeros{}); fault.KindOf(err) != fault.Timeout {
		t.Errorf("a file that is not taken: %v", err)
	}
	if _, err := c.ReadFile(within(t, 200*time.Millisecond), "/x", 0, 0, io.Discard); fault.KindOf(err) != fault.Timeout {
		t.Errorf("a file that does not come: %v", err)
	}
}

// zeros is content without end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// TestWindowTellsWhatWentWrong: an error after the first byte is that of the agent, and the next transfer is not hurt.
func TestWindowTellsWhatWentWrong(t *testing.T) {
	c, _ := windowed(t, true)
	ctx := within(t, 60*time.Second)
	dir := t.TempDir()
	data := make([]byte, 2<<20)
	full := filepath.Join(dir, "full")
	if err := os.Mkdir(full, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", full, "tmpfs", 0, "size=1m"); err == nil {
		defer unix.Unmount(full, unix.MNT_DETACH)
		if err := c.WriteFile(ctx, FileSpec{Path: full + "/file", Size: 20 << 20}, io.LimitReader(zeroes{}, 20<<20)); fault.KindOf(err) != fault.Exhausted {
			t.Errorf("a full disk: %v", err)
		}
	} else if !errors.Is(err, unix.EPERM) {
		t.Fatal(err)
	}
	if err := c.WriteFile(ctx, FileSpec{Path: dir + "/no/where", Size: int64(len(data))}, bytes.NewReader(data)); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a missing folder: %v", err)
	}
	if err := c.WriteFile(ctx, FileSpec{Path: dir + "/short", Size: 3 << 20}, bytes.NewReader(data)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a reader that ends early: %v", err)
	}
	if err := c.WriteFile(ctx, FileSpec{Path: dir + "/file", Size: int64(len(data))}, bytes.NewReader(data)); err != nil {
		t.Error(err)
	}
	if _, err := c.ReadFile(ctx, dir+"/file", 0, 0, writerFunc(func([]byte) (int, error) { return 0, errBroken })); !errors.Is(err, errBroken) {
		t.Errorf("a writer that fails: %v", err)
	}
	if n, err := c.ReadFile(ctx, dir+"/file", 0, 0, io.Discard); err != nil || n != int64(len(data)) {
		t.Errorf("%d bytes, %v", n, err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("%v is left", entries)
	}
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestManyTransfersShareAWindow: those that do not get it go over the link.
func TestManyTransfersShareAWindow(t *testing.T) {
	c, theirs := windowed(t, true)
	ctx := within(t, 60*time.Second)
	dir := t.TempDir()
	failed := make(chan error, 8)
	for i := range cap(failed) {
		go func() {
			data := make([]byte, 3<<20+i)
			rand.New(rand.NewSource(int64(i))).Read(data)
			path := filepath.Join(dir, string(rune('a'+i)))
			var b bytes.Buffer
			err := c.WriteFile(ctx, FileSpec{Path: path, Size: int64(len(data))}, bytes.NewReader(data))
			if err == nil {
				_, err = c.ReadFile(ctx, path, 0, 0, &b)
			}
			if err == nil && !bytes.Equal(b.Bytes(), data) {
				err = errors.New("what was read is not what was written")
			}
			failed <- err
		}()
	}
	for range cap(failed) {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if theirs.read == 0 {
		t.Error("nothing went through the window")
	}
}
