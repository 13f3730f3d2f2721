package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
	"github.com/pyro-mcp/pyro/internal/gen/agent/v1/agentv1connect"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// watched is a running call of WatchFolders.
type watched struct {
	t    *testing.T
	sent chan uint64
	over chan error
}

// ended returns the error of a watch that has ended.
func (w *watched) ended() error {
	w.t.Helper()
	select {
	case err := <-w.over:
		return err
	case <-time.After(testenv.Patience):
		w.t.Fatal("the watch does not end")
	}
	return nil
}

// watch starts a call of WatchFolders. The function leave ends it as a lost client does.
func (w *world) watch(t *testing.T, paths ...string) (got *watched, leave func()) {
	t.Helper()
	_, handler := agentv1connect.NewAgentServiceHandler(w.Server)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	ctx, leave := context.WithCancel(t.Context())
	t.Cleanup(leave)
	got = &watched{t: t, sent: make(chan uint64, 1000), over: make(chan error, 1)}
	req := &agentv1.WatchFoldersRequest{}
	for _, p := range paths {
		req.Paths = append(req.Paths, []byte(p))
	}
	stream, err := agentv1connect.NewAgentServiceClient(server.Client(), server.URL).WatchFolders(ctx, connect.NewRequest(req))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for stream.Receive() {
			got.sent <- stream.Msg().Changed
		}
		got.over <- stream.Err()
	}()
	return got, leave
}

// next returns the next message.
func (w *watched) next() uint64 {
	w.t.Helper()
	select {
	case changed := <-w.sent:
		return changed
	case err := <-w.over:
		w.t.Fatalf("the watch has ended: %v", err)
	case <-time.After(testenv.Patience):
		w.t.Fatal("no message")
	}
	return 0
}

// until returns the changes up to a message with the bit end, and the number of messages.
func (w *watched) until(end uint64) (changed uint64, messages int) {
	w.t.Helper()
	for messages = 1; ; messages++ {
		if changed |= w.next(); changed&end != 0 {
			return changed, messages
		}
	}
}

// TestWatchFolders checks that each kind of change in a folder is reported, and no other change.
func TestWatchFolders(t *testing.T) {
	w := newWorld(t)
	w.watchInterval = 10 * time.Millisecond
	dir := func(name string) error { return os.Mkdir(w.dir+name, 0o755) }
	write := func(name string) error { return os.WriteFile(w.dir+name, []byte("x"), 0o644) }
	move := func(from, to string) error { return os.Rename(w.dir+from, w.dir+to) }
	if err := errors.Join(dir("/end0"), dir("/end1"), dir("/other")); err != nil {
		t.Fatal(err)
	}
	got, _ := w.watch(t, "/sub", "/sub/deep", "/", "/sub/new/er", "/sub/file", "/end0", "/end1")
	if changed := got.next(); changed != 0 {
		t.Fatalf("the first message has %b", changed)
	}
	const sub, deep, root, newer, file, ends = 1, 2, 4, 8, 16, 32 | 64
	for i, step := range []struct {
		do   func() error
		want uint64
	}{
		{func() error { return write("/sub/x") }, sub},
		{func() error { return write("/sub/x") }, sub},
		{func() error { return os.Chmod(w.dir+"/sub/x", 0o600) }, sub},
		{func() error { return move("/sub/x", "/sub/deep/x") }, sub | deep},
		{func() error { return os.Remove(w.dir + "/sub/deep/x") }, deep},
		{func() error { return write("/other/x") }, 0},
		{func() error { return os.Symlink("sub", w.dir+"/s") }, root},
		{func() error { return dir("/sub/new") }, sub},
		{func() error { return dir("/sub/new/er") }, newer},
		{func() error { return write("/sub/new/er/x") }, newer},
		{func() error { return os.RemoveAll(w.dir + "/sub/new") }, sub | newer},
		{func() error { return os.RemoveAll(w.dir + "/sub/deep") }, sub | deep},
		{func() error { return os.MkdirAll(w.dir+"/sub/new/er", 0o755) }, sub | newer},
		{func() error { return dir("/sub/deep") }, sub | deep},
		{func() error { return move("/sub", "/old") }, sub | deep | root | newer},
		{func() error { return write("/old/deep/x") }, 0},
		{func() error { return move("/old", "/sub") }, sub | deep | root | newer},
		{func() error { return write("/sub/deep/y") }, deep},
		{func() error { return os.Remove(w.dir + "/sub/file") }, sub},
		{func() error { return dir("/sub/file") }, sub | file},
	} {
		// A change of another folder marks the end of a step. The ends alternate, because a folder
		// can be reported twice.
		if err := errors.Join(step.do(), dir(fmt.Sprintf("/end%d/%d", i%2, i))); err != nil {
			t.Fatal(err)
		}
		if changed, _ := got.until(32 << (i % 2)); changed&^ends != step.want {
			t.Errorf("step %d: got %b, want %b", i, changed&^ends, step.want)
		}
	}
}

// TestWatchBurst checks that many changes give few messages, and that the last change is reported.
func TestWatchBurst(t *testing.T) {
	w := newWorld(t)
	got, _ := w.watch(t, "/sub", "/end")
	got.next()
	began := time.Now()
	for i := range 2_000 {
		name := w.dir + "/sub/x"
		change := func() error { return os.Mkdir(name, 0o755) }
		if i%2 == 1 {
			change = func() error { return os.Remove(name) }
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(w.dir+"/end", 0o755); err != nil {
		t.Fatal(err)
	}
	changed, messages := got.until(2)
	if limit := int(time.Since(began)/watchInterval) + 2; changed != 3 || messages > limit {
		t.Errorf("got %b in %d messages, want at most %d", changed, messages, limit)
	}
}

// TestWatchEnds checks that a watch closes what it has opened when the client leaves.
func TestWatchEnds(t *testing.T) {
	w := newWorld(t)
	instances := func() (n int) {
		all, _ := filepath.Glob("/proc/self/fd/*")
		for _, fd := range all {
			if to, _ := os.Readlink(fd); to == "anon_inode:inotify" {
				n++
			}
		}
		return n
	}
	var leave []func()
	for range maxWatches {
		got, end := w.watch(t, "/")
		got.next()
		leave = append(leave, end)
	}
	if n := instances(); n != maxWatches {
		t.Fatalf("got %d inotify instances, want %d", n, maxWatches)
	}
	last, _ := w.watch(t, "/")
	if err := last.ended(); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("one watch more: %v", err)
	}
	for _, end := range leave {
		end()
	}
	testenv.Eventually(t, "no inotify instance is left", func() bool { return instances() == 0 && w.watches.Load() == 0 })
}

// TestHostileWatch checks that a watch does not leave the root, and refuses bad requests.
func TestHostileWatch(t *testing.T) {
	w := newWorld(t)
	if err := os.Mkdir(w.dir+"/end", 0o755); err != nil {
		t.Fatal(err)
	}
	got, _ := w.watch(t, "/folder", "/folder-up", "/../outside", "/loop/x", "/file/x", "/"+strings.Repeat("x", 300), "/end")
	got.next()
	if err := errors.Join(os.Chmod(w.outside+"/secret", 0o600), os.Mkdir(w.dir+"/end/x", 0o755)); err != nil {
		t.Fatal(err)
	}
	if changed, _ := got.until(64); changed != 64 {
		t.Errorf("a change outside of the root was reported: %b", changed)
	}
	for _, paths := range [][]string{nil, make([]string, maxFolders+1), {""}, {"sub"}, {"/\x00"}, {"/" + strings.Repeat("x/", maxPath)}} {
		got, _ := w.watch(t, paths...)
		if err := got.ended(); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%.80q: %v", paths, err)
		}
	}
}
