package cgroup

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// The tests in this file use real cgroups if the user is allowed to make cgroups.

func realParent(t *testing.T) *Parent {
	p, err := Find()
	if err != nil {
		testenv.Lacks(t, err)
	}
	return p
}

// realV2 returns a parent in the kernel's version 2 tree. On a hybrid host this tree has no
// controllers, so its groups limit nothing.
func realV2(t *testing.T) *Parent {
	p := realParent(t)
	if p.version == 2 {
		return p
	}
	text, err := read("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := parseMounts(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mounts {
		if m.kind == "cgroup2" && !m.readOnly && p.host.isRoot(m.point) {
			return &Parent{host: p.host, version: 2, folders: map[string]string{memory: m.point}, stale: staleAfter}
		}
	}
	t.Skip("nothing of version 2 is mounted")
	return nil
}

func makeReal(t *testing.T, p *Parent, l Limits) *Group {
	g, err := p.Make("test-"+strconv.Itoa(os.Getpid())+"-"+strconv.FormatInt(time.Now().UnixNano(), 36), l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// inside runs a script in the group. The function end waits until the script has ended, and returns
// its output.
func inside(t *testing.T, g *Group, script string) (pid int, end func() string) {
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	cmd := exec.CommandContext(ctx, "sh", "-c", "read order; "+script)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second // child processes can keep the output open
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	g.Attr(cmd.SysProcAttr)
	order, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	begin := time.Now()
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	t.Logf("Add took %s", time.Since(begin))
	if _, err := io.WriteString(order, "\n"); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid, func() string { <-ended; return out.String() }
}

func members(t *testing.T, folder string) []int {
	text, err := read(filepath.Join(folder, "cgroup.procs"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := processes(text)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestKernelListsProcess(t *testing.T) {
	p := realParent(t)
	g := makeReal(t, p, Limits{MemoryBytes: 64 << 20, CPUs: 1, Processes: 50})
	folders := slices.Clone(g.folders)
	t.Logf("version %d, %v, missing %v", p.version, folders, p.Missing())
	pid, end := inside(t, g, "sleep 60 & exec sleep 60")
	for _, f := range folders {
		for until := time.Now().Add(testenv.Patience); len(members(t, f)) < 2 && time.Now().Before(until); {
			time.Sleep(time.Millisecond)
		}
		if got := members(t, f); !slices.Contains(got, pid) || len(got) != 2 {
			t.Errorf("%s has %v, not %d and its child", f, got, pid)
		}
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o700 {
			t.Logf("other users can read the group: %v, %v", info.Mode(), err) // old Linux versions ignore the mode
		}
	}
	wants := map[string]string{
		"memory.limit_in_bytes": "67108864", "cpu.cfs_quota_us": "100000",
		"memory.max": "67108864", "cpu.max": "100000 100000", "pids.max": "50",
	}
	for name, want := range wants {
		for _, f := range folders {
			if got, err := read(filepath.Join(f, name)); err == nil && strings.TrimSpace(got) != want {
				t.Errorf("%s is %q, not %q", name, got, want)
			}
		}
	}
	if g.OutOfMemory() {
		t.Error("nothing was killed for want of memory")
	}
	begin := time.Now()
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("Close took %s", time.Since(begin))
	end()
	for _, f := range folders {
		if exists(f) {
			t.Error(f, "it still exists")
		}
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

func TestKernelBoundsMemory(t *testing.T) {
	g := makeReal(t, realParent(t), Limits{MemoryBytes: 64 << 20})
	_, end := inside(t, g, "ulimit -v 2000000; exec tail /dev/zero") // the ulimit stops tail if the group does not
	if out := end(); strings.Contains(out, "memory exhausted") || !g.OutOfMemory() {
		t.Errorf("it was not killed for want of memory: %q", out)
	}
	if err := g.Close(); err != nil || !g.OutOfMemory() {
		t.Errorf("got %v, out of memory %v", err, g.OutOfMemory())
	}
}

func TestKernelBoundsProcesses(t *testing.T) {
	p := realParent(t)
	if slices.Contains(p.Missing(), pids) {
		t.Skip("no pids controller")
	}
	g := makeReal(t, p, Limits{Processes: 5})
	_, end := inside(t, g, "for i in 1 2 3 4 5 6 7 8 9; do sleep 60 & done; echo all")
	if out := end(); !strings.Contains(strings.ToLower(out), "fork") || strings.Contains(out, "all") {
		t.Errorf("it could start more than five: %q", out)
	}
}

// TestKernelClosesUnderForks checks that Close works while the processes fork as fast as they can.
func TestKernelClosesUnderForks(t *testing.T) {
	for name, parent := range map[string]func(*testing.T) *Parent{"limits": realParent, "version 2": realV2} {
		t.Run(name, func(t *testing.T) {
			g := makeReal(t, parent(t), Limits{})
			folders := slices.Clone(g.folders)
			_, end := inside(t, g, "for i in 1 2 3 4 5 6 7 8; do (while :; do sleep 0.01 & done) & done; wait")
			for until := time.Now().Add(testenv.Patience); len(members(t, folders[0])) < 12 && time.Now().Before(until); {
				time.Sleep(time.Millisecond)
			}
			begin := time.Now()
			if err := g.Close(); err != nil {
				t.Error(err)
			}
			t.Logf("Close took %s", time.Since(begin))
			end()
			if exists(folders[0]) {
				t.Error("it still exists")
			}
		})
	}
}

func TestKernelStartsProcessInGroup(t *testing.T) {
	g := makeReal(t, realV2(t), Limits{})
	pid, end := inside(t, g, "exec sleep 60")
	if got := members(t, g.folders[0]); !slices.Equal(got, []int{pid}) {
		t.Errorf("got %v, want %d", got, pid)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	end()
}

// TestKernelAcceptsLowerParentLimit checks that Make succeeds if the parent has a lower processor
// limit. In version 1 the kernel then refuses the group's limit, and the parent's limit applies.
func TestKernelAcceptsLowerParentLimit(t *testing.T) {
	p := realParent(t)
	if slices.Contains(p.Missing(), cpu) || p.host.processors < 2 {
		t.Skip("no cpu controller, or one processor")
	}
	if p.version == 2 {
		t.Skip("version 2 takes any")
	}
	outer := makeReal(t, p, Limits{CPUs: 1})
	h := p.host
	h.processors = 64
	below := &Parent{host: h, version: 1, folders: map[string]string{}, stale: staleAfter}
	for c, f := range p.folders {
		below.folders[c] = filepath.Join(f, prefix+outer.name)
	}
	g := makeReal(t, below, Limits{CPUs: 2, MemoryBytes: 64 << 20})
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

func TestKernelSweep(t *testing.T) {
	for name, parent := range map[string]func(*testing.T) *Parent{"limits": realParent, "version 2": realV2} {
		t.Run(name, func(t *testing.T) {
			// The test makes its own parent group, because Sweep must not touch other groups.
			p := parent(t)
			outer := makeReal(t, p, Limits{})
			own := &Parent{host: p.host, version: p.version, folders: map[string]string{}, stale: staleAfter}
			for c, f := range p.folders {
				own.folders[c] = filepath.Join(f, prefix+outer.name)
			}
			fresh := func() *Group {
				g, err := own.Make("left", Limits{})
				if err != nil {
					t.Fatal(err)
				}
				return g
			}
			g := fresh()
			defer func() {
				if err := g.Close(); err != nil {
					t.Error(err)
				}
			}()
			folders := slices.Clone(g.folders)
			there := func(want bool, why string) {
				t.Helper()
				own.Sweep()
				for _, f := range folders {
					if exists(f) != want {
						t.Errorf("%s: %s", f, why)
					}
				}
			}
			own.stale = 0
			there(true, "it is held")
			for _, l := range g.locks {
				l.Release() // simulates that pyro was killed
			}
			own.stale = staleAfter
			there(true, "it is young")
			own.stale = 0
			_, end := inside(t, g, "exec sleep 60")
			there(true, "a process is in it")
			g.kill()
			end()
			there(false, "nobody holds it, and it is empty")
		})
	}
}

// TestKernelReportsShortage checks that a version 1 group reports immediately when the kernel kills
// one of its processes.
func TestKernelReportsShortage(t *testing.T) {
	g := makeReal(t, realParent(t), Limits{MemoryBytes: 64 << 20})
	reported, err := g.Shortages()
	if err != nil {
		t.Fatal(err)
	}
	if reported == nil {
		if g.version != 2 {
			t.Fatal("no reason to report")
		}
		t.Skip("the kernel kills the whole group")
	}
	defer reported.Close()
	if g.Killed(reported) {
		t.Error("nothing was killed yet")
	}
	_, end := inside(t, g, "tail /dev/zero; sleep 60")
	poll := []unix.PollFd{{Fd: int32(reported.Fd()), Events: unix.POLLIN}}
	if n, err := unix.Poll(poll, 30_000); n != 1 || !g.Killed(reported) {
		t.Errorf("got %d, %v", n, err)
	}
	g.Close()
	end()
}
