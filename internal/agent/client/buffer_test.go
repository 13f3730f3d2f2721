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
	"github.com/pyro-mcp/pyro/internal/agent/sharedbuffer"
	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/fault"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// files is an ExecEnv that provides only files, and optionally a volume.
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
func (files) Renew(*agentv1.RenewRequest) error { return nil }
func (f files) Files(name string) (int, string, func(), error) {
	return int(f.root.Fd()), name, func() {}, nil
}
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

// counted counts the bytes that are read from and written to a shared buffer.
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

// startWithBuffer starts an agent. If share is true, the client and the agent share a buffer.
func startWithBuffer(t *testing.T, share bool) (c *Client, theirs *counted) {
	t.Helper()
	root, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return startWithBufferIn(t, share, files{root: root})
}

// memfd returns a file in memory for a shared buffer.
func memfd(t *testing.T) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("buffer", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	w := os.NewFile(uintptr(fd), "buffer")
	t.Cleanup(func() { w.Close() })
	if err := w.Truncate(sharedbuffer.Size); err != nil {
		t.Fatal(err)
	}
	return w
}

// startWithBufferIn is like startWithBuffer, with an ExecEnv.
func startWithBufferIn(t *testing.T, share bool, env agent.ExecEnv) (c *Client, theirs *counted) {
	t.Helper()
	w := memfd(t)
	server := agent.New(env, "test")
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

func TestSharedBuffer(t *testing.T) {
	for _, share := range []bool{true, false} {
		c, theirs := startWithBuffer(t, share)
		ctx := within(t)
		data := make([]byte, 2*sharedbuffer.Size+777)
		rand.New(rand.NewSource(5)).Read(data)
		path := filepath.Join(t.TempDir(), "file")
		if err := c.WriteFile(ctx, FileSpec{Path: path, Size: int64(len(data))}, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		if b, _ := os.ReadFile(path); !bytes.Equal(b, data) {
			t.Fatal("the file differs from the written data")
		}
		for _, part := range []struct{ offset, limit int }{{0, 0}, {12345, 0}, {1, sharedbuffer.SlotSize + 1}, {len(data) - 5, 0}, {7, sharedbuffer.Worth - 1}} {
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
			t.Errorf("shared: %t: got %d bytes read through the shared buffer, %d written", share, theirs.read, theirs.written)
		}
	}
}

// TestUnresponsiveAgentDuringTransfer checks that a transfer through the shared buffer ends with
// its context. This must hold even if the agent grants the buffer and then does nothing more.
func TestUnresponsiveAgentDuringTransfer(t *testing.T) {
	c, err := Dial(within(t), evil(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(sharedbuffer.Header, "1")
		w.WriteHeader(http.StatusOK)
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Share(memfd(t))
	if err := c.WriteFile(expiring(t, 200*time.Millisecond), FileSpec{Path: "/x", Size: 2 * sharedbuffer.Size}, zeros{}); fault.KindOf(err) != fault.Timeout {
		t.Errorf("write that the agent does not accept: got %v", err)
	}
	if _, err := c.ReadFile(expiring(t, 200*time.Millisecond), "/x", 0, 0, io.Discard); fault.KindOf(err) != fault.Timeout {
		t.Errorf("read that the agent does not answer: got %v", err)
	}
}

// zeros is a reader of endless zero bytes.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// TestSharedBufferErrors checks that the client gets errors that occur in the agent after the first
// byte. It also checks that the next transfer works.
func TestSharedBufferErrors(t *testing.T) {
	c, _ := startWithBuffer(t, true)
	ctx := within(t)
	dir := t.TempDir()
	data := make([]byte, 2<<20)
	full := filepath.Join(dir, "full")
	if err := os.Mkdir(full, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", full, "tmpfs", 0, "size=1m"); err == nil {
		defer unix.Unmount(full, unix.MNT_DETACH)
		if err := c.WriteFile(ctx, FileSpec{Path: full + "/file", Size: 20 << 20}, io.LimitReader(zeros{}, 20<<20)); fault.KindOf(err) != fault.Exhausted {
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
		t.Errorf("leftover: %v", entries)
	}
}

// TestConcurrentTransfersShareBuffer checks that other transfers use the link while one transfer
// uses the buffer.
func TestConcurrentTransfersShareBuffer(t *testing.T) {
	c, theirs := startWithBuffer(t, true)
	ctx := within(t)
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
		t.Error("got no bytes through the shared buffer")
	}
}
