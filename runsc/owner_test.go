package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/machine/gvisor/protocol"
	"golang.org/x/sys/unix"
)

// TestLongError sends an error that is longer than an event. The owner must get its beginning as an
// event of valid size.
func TestLongError(t *testing.T) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	near := os.NewFile(uintptr(ends[0]), "owner")
	defer near.Close()
	far, err := connect(ends[1])
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer far.socket.Close()
		(&owner{connection: far}).send("saved", errors.New("broken pipe:\n"+strings.Repeat("\x00", 1<<20)))
	}()
	b, err := io.ReadAll(near)
	if err != nil {
		t.Fatal(err)
	}
	var e protocol.Event
	if err := json.Unmarshal(b, &e); err != nil || len(b) > protocol.MaxEvent {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	if e.Event != "failed" || !strings.HasPrefix(e.Error, "broken pipe:\n") {
		t.Errorf("got event %s, error %.100q", e.Event, e.Error)
	}
}
