package machinetest

import (
	"bytes"
	"context"
	"math/rand"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/agent/client"
)

// files checks that files of every size get in and out whole, through the machine's window where it has one, and that the window ends with the machine.
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
			t.Errorf("%d bytes came back as %d: %v", size, b.Len(), err)
		}
	}
	window := g.Window()
	g.Close()
	if window != nil {
		if _, err := window.ReadAt(make([]byte, 1), 0); err == nil {
			t.Error("the window is open after the end of the machine")
		}
	}
}

// timers checks that a user's process is woken as punctually as anywhere.
func (s suite) timers(t *testing.T) {
	if slack := s.renewed(t, usual).shell(t, "cat /proc/self/timerslack_ns 2>/dev/null || echo 50000"); slack != "50000" {
		t.Errorf("a process is woken up to %s ns late", slack)
	}
}
