package daemon

import (
	"os"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// watchWorkspace watches the folder of the workspace.
func watchWorkspace(t *testing.T, h *home) (*remote.Client, <-chan uint64, <-chan error) {
	t.Helper()
	watching, err := remote.Watch(t.Context(), h.folder)
	check(t, err)
	t.Cleanup(func() { watching.Close() })
	changes, ended := make(chan uint64, 100), make(chan error, 1)
	go func() {
		ended <- watching.WatchFolders(t.Context(), []string{"/none", "/workspace"}, func(folders uint64) error {
			changes <- folders
			return nil
		})
	}()
	return watching, changes, ended
}

// TestWatchedFolders checks that a program's change is reported, and that a watch is no use of the
// workspace. A pause and the end of the machine must end a watch.
func TestWatchedFolders(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	expect := func(from <-chan uint64, want uint64) {
		t.Helper()
		select {
		case got := <-from:
			if got != want {
				t.Errorf("got %b, want %b", got, want)
			}
		case <-time.After(testenv.Patience):
			t.Fatal("got no message")
		}
	}
	ends := func(from <-chan error, want fault.Kind) {
		t.Helper()
		select {
		case err := <-from:
			if fault.KindOf(err) != want {
				t.Errorf("it ended with %v, want the kind %v", err, want)
			}
		case <-time.After(testenv.Patience):
			t.Fatal("the watch does not end")
		}
	}
	watching, changes, ended := watchWorkspace(t, h)
	before, err := watching.Status(t.Context())
	check(t, err)
	expect(changes, 0)
	check(t, os.Mkdir(h.files()+"/folder", 0o755)) // as a program does it, without a call
	expect(changes, 2)
	after, err := watching.Status(t.Context())
	check(t, err)
	if !after.LastActivityAt.Equal(before.LastActivityAt) {
		t.Error("the watch counted as activity")
	}
	c.Close()
	release, err := h.folder.Unused()
	check(t, err)
	release()

	if err := h.dial(t).Pause(t.Context(), ""); fault.KindOf(err) != fault.Unsupported {
		t.Errorf("a pause of a machine without isolation: %v", err)
	}
	ends(ended, fault.Unavailable)
	_, changes, ended = watchWorkspace(t, h)
	expect(changes, 0)
	check(t, h.dial(t).Stop(t.Context(), "", true))
	ends(ended, fault.Precondition)
}
