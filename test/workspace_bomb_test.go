//go:build machine

package test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// bombs contains commands that endlessly start processes or threads. Some of them are hard to kill,
// because they ignore signals and leave their session.
var bombs = map[string][]string{
	"Bash": {"bash", "-c", ":(){ :|:& };:; sleep 1000"},
	"Fork": {"python3", "-c", `import os, signal
for s in range(1, 65):
	try: signal.signal(s, signal.SIG_IGN)
	except Exception: pass
while True:
	try:
		if os.fork() == 0: os.setsid()
	except OSError: pass`},
	"Threads": {"python3", "-c", `import threading, time
while True:
	try: threading.Thread(target=time.sleep, args=(1000,)).start()
	except RuntimeError: pass`},
}

// TestForkBombs checks that a fork bomb does not harm the host or other workspaces more than any
// other command. A bomb that is not limited blocks other commands for good. Then they take longer
// than patience, and fail.
func TestForkBombs(t *testing.T) {
	for name, bomb := range bombs {
		t.Run(name, func(t *testing.T) {
			if name != "Fork" { // the hardest to end
				skipUnlessAll(t)
			}
			p := workspaces(t)
			id := p.create()
			p.must("workspace", "file", "write", id, "kept", "--text", "kept")
			p.fails(124, "", append([]string{"workspace", "exec", id, "--timeout-seconds", "6", "--"}, bomb...)...)
			p.shell(id, "echo alive")
			p.must(append([]string{"workspace", "service", "start", id, "bomb", "--"}, bomb...)...)
			time.Sleep(6 * time.Second)
			p.shell(id, "echo alive")
			_, machine, _ := p.find(id)
			if started := descendants(machine); started > 2*2048+64 {
				t.Errorf("%d processes on the host", started)
			}
			p.must("workspace", "stop", id)
			if left := descendants(machine); left > 0 {
				t.Errorf("%d processes still run on the host", left)
			}
			p.must("workspace", "start", id)
			if got := p.shell(id, "cat kept"); got != "kept" {
				t.Errorf("%q", got)
			}
			p.must(append([]string{"workspace", "service", "start", id, "again", "--"}, bomb...)...)
			time.Sleep(3 * time.Second)
			p.must("workspace", "delete", id)
		})
	}
}

// descendants returns the number of descendants that a process has on the host.
func descendants(of int) (count int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	parents := map[int]int{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		fields := strings.Fields(rest)
		pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
		if len(fields) > 1 {
			parents[pid], _ = strconv.Atoi(fields[1])
		}
	}
	for pid := range parents {
		for at := parents[pid]; at > 1; at = parents[at] {
			if at == of {
				count++
				break
			}
		}
	}
	return count
}
