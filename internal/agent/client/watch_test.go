package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/pyro-mcp/pyro/internal/fault"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// TestWatchFolders watches 64 folders of an agent, over a link that breaks once.
func TestWatchFolders(t *testing.T) {
	stream := startAgent(t)
	c := dial(t, stream)
	dir := t.TempDir()
	var paths []string
	for i := range 64 {
		paths = append(paths, filepath.Join(dir, fmt.Sprint(i)))
		if err := os.Mkdir(paths[i], 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ctx, leave := context.WithCancelCause(within(t))
	left := errors.New("the client leaves")
	step := 0
	err := c.WatchFolders(ctx, paths, func(folders uint64) error {
		step++
		if want := uint64(step+1) % 2 << 63; folders != want {
			t.Errorf("step %d: got %b, want %b", step, folders, want)
		}
		switch step {
		case 2:
			c.current().conn.Close() // the next call comes from a new session
		case 4:
			leave(left)
		default:
			return os.Mkdir(paths[63]+fmt.Sprint("/", step), 0o755)
		}
		return nil
	})
	if !errors.Is(err, left) || step != 4 {
		t.Errorf("it ended with %v after %d calls", err, step)
	}
	failed := errors.New("failed")
	if err := c.WatchFolders(within(t), []string{dir}, func(uint64) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("a function that fails: %v", err)
	}
	if err := c.WatchFolders(within(t), []string{"x"}, nil); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a relative path: %v", err)
	}
}

// TestHostileWatch checks that messages about unknown folders, and messages without a folder, are
// refused.
func TestHostileWatch(t *testing.T) {
	message := func(changed uint64) []byte {
		b, err := proto.Marshal(&agentv1.WatchFoldersResponse{Changed: changed})
		if err != nil {
			t.Fatal(err)
		}
		return envelope(0, uint32(len(b)), b)
	}
	for name, body := range map[string][]byte{
		"a folder too many":    append(message(0), message(4)...),
		"a change too early":   message(1),
		"two first messages":   append(message(0), message(0)...),
		"no messages":          envelope(2, 2, []byte("{}")),
		"an end without error": append(message(0), envelope(2, 2, []byte("{}"))...),
	} {
		c, err := Dial(within(t), evil(t, answer(body)))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.WatchFolders(within(t), []string{"/a", "/b"}, func(uint64) error { return nil }); fault.KindOf(err) != fault.Corrupt {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
	}
}
