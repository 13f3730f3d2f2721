//go:build machine

package gvisor

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/machinetest"
)

// busy contains commands that write to their own files in many ways: from threads, from child
// processes, from a timer, after a sleep, and through mapped memory. One command traces another
// process.
var busy = map[string]string{
	"sleeper": `while :; do sleep 0.02; echo x >>sleeper; done`,
	"threads": `python3 -c '
import threading, time
def write(n):
    with open("threads", "a", 1) as f:
        while True:
            time.sleep(0.01 * n); print(n, file=f)
for n in range(4): threading.Thread(target=write, args=(n,)).start()'`,
	"timer": `python3 -c '
import os, signal
f = os.open("timer", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
signal.signal(signal.SIGALRM, lambda *_: os.write(f, b"x")); signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
while True: signal.pause()'`,
	"mapped": `python3 -c '
import mmap, itertools
f = open("mapped", "w+b"); f.write(bytes(4096)); f.flush()
m = mmap.mmap(f.fileno(), 4096)
for i in itertools.count(): m[:8] = i.to_bytes(8, "little"); m.flush() if i % 1000 == 0 else None'`,
	"traced": `python3 -c '
import ctypes, os, time
libc = ctypes.CDLL(None)
child = os.fork()
if child == 0:
    libc.ptrace(0, 0, 0, 0)
    os.kill(os.getpid(), 19)
    while True: open("traced", "a").write("x"); time.sleep(0.01)
while True: # at each system call of the child
    os.waitpid(child, 0)
    libc.ptrace(24, child, 0, 0)'`,
	"pair": `mkfifo one two; (while read l <one; do echo $l >>pair; echo $l >two; done) & while :; do echo x >one; read l <two; done`,
}

// written returns the size and a digest of each file that the commands in busy write.
func written(t *testing.T, folder string) map[string]string {
	t.Helper()
	sums := map[string]string{}
	for name := range busy {
		b, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		sums[name] = fmt.Sprintf("%d bytes, %x", len(b), sha256.Sum256(b))
	}
	return sums
}

// TestNothingIsWrittenBeforeThaw checks that the processes of a saved machine do not change
// the volume before Thaw, even if the machine is saved again. Signals that arrive before Thaw must
// take effect after Thaw. Commands that the agent starts before Thaw must run. A program that waits
// in open during a save must go on waiting.
func TestNothingIsWrittenBeforeThaw(t *testing.T) {
	d, root, folder := driverIn(t, machinetest.SharedDirs(t)), machinetest.Debian(t), t.TempDir()
	spec := func() machine.Spec {
		s := specOf(t, root)
		s.VCPUs, s.MemMiB = 2, 512
		return s
	}
	s := startStored(t, d, spec(), machine.TreeStorage{Folder: folder})
	for name, line := range busy {
		s.shell(t, fmt.Sprintf("cd %s; (%s) >/dev/null 2>/run/err-%s & until test -s %s; do sleep 0.01; done", workspace, line, name, name))
	}
	s.shell(t, `sh -c 'trap "echo told >/run/told" TERM; echo $$ >/run/polite; while :; do sleep 0.01; done' >/dev/null 2>&1 & sleep 1000 >/dev/null 2>&1 & echo $! >/run/killed`)
	s.until(t, "test -s /run/polite")
	s.shell(t, `mkfifo /run/fifo; perl -e 'open(F, "<", "/run/fifo") or die "open: $!\n"; print <F>' >/run/read 2>/run/err-read & until grep -q "State:.S" /proc/$!/status; do sleep 0.01; done`)
	dir := s.save(t)
	s.Close()
	before := written(t, s.files)
	for round := range 3 {
		next := spec()
		next.Saved, next.Storage = dir, &machine.Storage{Tree: &machine.TreeStorage{Folder: folder}}
		asleep := startAsleep(t, d, next)
		if _, err := asleep.agent.Mount(t.Context(), client.Mounts{Root: true, Volume: true}); err != nil {
			t.Fatal(err)
		}
		asleep.shell(t, "i=0; while [ $i -lt 20 ]; do i=$((i+1)); sleep 0.01; done; cd "+workspace+"; echo meanwhile >mine; test $(cat mine) = meanwhile; rm mine")
		if round == 0 {
			asleep.shell(t, "kill -TERM $(cat /run/polite); kill -KILL $(cat /run/killed)")
		}
		asleep.shell(t, "test ! -e /run/told")
		for name, was := range written(t, s.files) {
			if was != before[name] {
				t.Errorf("round %d: %s was %s, and is %s", round, name, before[name], was)
			}
		}
		if round < 2 {
			dir = asleep.save(t)
			asleep.Close()
			continue
		}
		asleep.wake(t)
		asleep.until(t, "test -e /run/told")
		asleep.until(t, "! kill -0 $(cat /run/killed) 2>/dev/null")
		asleep.shell(t, "echo line >/run/fifo 2>/dev/null & until grep line /run/read || test -s /run/err-read; do sleep 0.01; done")
		for name := range busy {
			at := filepath.Join(workspace, name)
			asleep.shell(t, fmt.Sprintf("cp %s /run/was; until ! cmp -s %s /run/was; do sleep 0.01; done", at, at))
		}
		if errors := asleep.shell(t, "cat /run/err-*"); errors != "" {
			t.Error(strings.TrimSpace(errors))
		}
	}
}
