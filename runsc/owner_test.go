package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/machine/gvisor/protocol"
	"golang.org/x/sys/unix"
)

// TestLongError sends errors that are longer than an event. The owner must get the cause, or the
// beginning if there is no cause, as an event of valid size.
func TestLongError(t *testing.T) {
	long := strings.Repeat("\x00", 1<<20)
	for _, test := range []struct {
		err  error
		want string
	}{
		{errors.New("no cause:\n" + long), "no cause:\n"},
		{fmt.Errorf("save %s: %w", long, fmt.Errorf("write %s: %w", long, unix.EPIPE)), "broken pipe"},
	} {
		if e := sent(t, test.err); e.Event != "failed" || !strings.HasPrefix(e.Error, test.want) {
			t.Errorf("got event %s with error %.100q, want %q", e.Event, e.Error, test.want)
		}
	}
}

// sent sends an error to an owner, and returns the event that the owner gets.
func sent(t *testing.T, err error) (e protocol.Event) {
	t.Helper()
	ends, failed := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if failed != nil {
		t.Fatal(failed)
	}
	near := os.NewFile(uintptr(ends[0]), "owner")
	defer near.Close()
	far, failed := connect(ends[1])
	if failed != nil {
		t.Fatal(failed)
	}
	go func() {
		defer far.socket.Close()
		(&owner{connection: far}).send("saved", err)
	}()
	b, failed := io.ReadAll(near)
	if failed != nil {
		t.Fatal(failed)
	}
	if failed := json.Unmarshal(b, &e); failed != nil || len(b) > protocol.MaxEvent {
		t.Fatalf("got %d bytes, %v", len(b), failed)
	}
	return e
}
