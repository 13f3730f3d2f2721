//go:build machine

package test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestFullLink checks that a program that sends datagrams does not hang while nobody reads the
// machine's packets. The link drops packets for which it has no space, as a network card does. In
// an emulated machine, the guest's kernel does the same.
func TestFullLink(t *testing.T) {
	t.Parallel()
	sameForAll(t)
	p := newHosts(t).pyro()
	id := p.create("--network-policy", "egress")
	p.must("workspace", "service", "start", id, "sender", "--ready-file", "/workspace/ready", "--", "python3", "-c", `import os, socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
open("ready", "w").close()
while not os.path.exists("go"): time.sleep(0.01)
for _ in range(5000): s.sendto(bytes(1400), ("`+public+`", 9))
open("done", "w").close()`)
	ready, err := filepath.Glob(filepath.Join(p.state, "workspaces", id, "disks", "volume-*", "files", "ready"))
	if err != nil || len(ready) != 1 {
		t.Fatalf("files of the workspace on the host: %v, %v", ready, err)
	}
	folder := filepath.Dir(ready[0])
	supervisor, _ := p.processes(id) // reads the packets
	testenv.StopProcess(t, supervisor)
	defer syscall.Kill(supervisor, syscall.SIGCONT)
	if err := os.WriteFile(filepath.Join(folder, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the program ends", func() bool {
		_, err := os.Stat(filepath.Join(folder, "done"))
		return err == nil
	})
}
